/** Mouse, wheel and touch input of the timeline: point, drag, pinch, zoom. */
import type { Domain } from './time-scale.ts';
import type { TimelinePicture } from './timeline-picture.ts';

/** Returns a function that removes the listeners. */
export function listenToHands(element: HTMLElement, picture: TimelinePicture): () => void {
  const fingers = new Map<number, { start: number; now: number }>();
  let before: Domain | null = null;
  let moved = false;
  const place = (event: PointerEvent | WheelEvent) => {
    const bounds = element.getBoundingClientRect();
    return { x: event.clientX - bounds.x, y: event.clientY - bounds.y };
  };
  const down = (event: PointerEvent) => {
    element.setPointerCapture(event.pointerId);
    const { x } = place(event);
    fingers.set(event.pointerId, { start: x, now: x });
    for (const finger of fingers.values()) finger.start = finger.now;
    before = picture.domain;
    moved = false;
  };
  // While the page scrolls under a resting pointer, the wheel keeps scrolling the page. Moving the pointer gives it to the timeline.
  let meant = false;
  const scrolled = () => {
    meant = false;
  };
  const move = (event: PointerEvent) => {
    if (event.movementX !== 0 || event.movementY !== 0) meant = true;
    const at = place(event);
    const finger = fingers.get(event.pointerId);
    if (!finger || !before) return picture.point(at);
    finger.now = at.x;
    const [one, two] = [...fingers.values()];
    if (one && two) picture.pinched(before, [one.start, two.start], [one.now, two.now]);
    else if (moved || Math.abs(finger.now - finger.start) > 4) {
      moved = true;
      picture.panBy(finger.now - finger.start, before);
    }
  };
  const up = (event: PointerEvent) => {
    if (fingers.delete(event.pointerId) && !moved) picture.point(place(event));
    for (const finger of fingers.values()) finger.start = finger.now;
    before = fingers.size > 0 ? picture.domain : null;
  };
  const leave = () => {
    if (fingers.size === 0) picture.point(null);
  };
  const wheel = (event: WheelEvent) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && !meant && !element.matches(':focus')) return;
    event.preventDefault();
    if (sideways) picture.panBy(-event.deltaX);
    else picture.zoomAt(place(event).x, 1.0015 ** event.deltaY);
  };
  const listeners = {
    pointerdown: down,
    pointermove: move,
    pointerup: up,
    pointercancel: up,
    pointerleave: leave,
  };
  for (const [name, listener] of Object.entries(listeners)) {
    element.addEventListener(name, listener as EventListener);
  }
  element.addEventListener('wheel', wheel, { passive: false });
  addEventListener('scroll', scrolled, { passive: true });
  return () => {
    for (const [name, listener] of Object.entries(listeners)) {
      element.removeEventListener(name, listener as EventListener);
    }
    element.removeEventListener('wheel', wheel);
    removeEventListener('scroll', scrolled);
  };
}
