/** The timeline of the last turns: each bar a measurement. Wheel, drag, pinch and keys zoom and move it. */
import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Session, SessionState, Span } from '../session/types.ts';
import { CLOCKS, describeSpan, spanInWords } from './describe-span.ts';
import { drawTimeline } from './draw-timeline.ts';
import { SpanTable } from './span-table.tsx';
import { type Frame, Surface } from './surface.tsx';
import { type Domain, pan, pinch, spanOf, toMs, zoom } from './time-scale.ts';
import {
  type Bar,
  barAt,
  barFrom,
  FITS,
  type Fit,
  fitTo,
  type LaneBars,
  layoutTimeline,
  placeSpans,
  type TimelineLayout,
  wholeOf,
} from './timeline-model.ts';

export function TimelineView({ session: { state } }: { session: Session }) {
  const fit = useSignal<Fit | null>('first token');
  const focus = useSignal<Bar | null>(null);
  const picture = useMemo(() => new TimelinePicture(state, fit, focus), [state]);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => listenToHands(box.current!, picture), [picture]);

  return (
    <section class="panel timeline" aria-label="Timeline">
      <div class="panel-head">
        <h2>Where the time went</h2>
        <fieldset class="segments">
          <legend class="visually-hidden">Show</legend>
          {FITS.map((name) => (
            <button
              type="button"
              key={name}
              aria-pressed={fit.value === name}
              onClick={() => {
                fit.value = name;
              }}
            >
              {name === 'first token' ? 'to the first token' : name}
            </button>
          ))}
        </fieldset>
      </div>
      <div
        ref={box}
        class="timeline-canvas"
        role="application"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is walked through with the keyboard
        tabIndex={0}
        aria-label="Timeline. Arrow keys go from bar to bar, plus and minus zoom, shift with arrows moves, 0 shows the last turn."
        aria-describedby="timeline-inspector"
        onKeyDown={(event) => {
          if (picture.key(event)) event.preventDefault();
        }}
      >
        <Surface
          name="timeline"
          heightFor={(width) => picture.layout(width).height}
          watch={() => picture.watch()}
          draw={(frame) => picture.draw(frame)}
          onReady={(redraw) => {
            picture.redraw = redraw;
          }}
        />
      </div>
      <div class="inspector is-short" id="timeline-inspector">
        {focus.value ? <SpanDetails span={focus.value.span} /> : <TimelineHint />}
        <p class="visually-hidden" aria-live="polite">
          {focus.value ? spanInWords(focus.value.span) : ''}
        </p>
      </div>
      <SpanTable state={state} />
    </section>
  );
}

function TimelineHint() {
  return (
    <p class="inspector-hint">
      With an edge: {CLOCKS.gpu}. Plain: {CLOCKS.host}. Hatched: {CLOCKS.modelled}. Wheel or pinch to zoom, drag
      to move.
    </p>
  );
}

function SpanDetails({ span }: { span: Span }) {
  const { title, where, took, moved, clock, more } = describeSpan(span);
  return (
    <p class="inspector-title">
      <strong>{title}</strong> on {where}: <span class="number">{took}</span>
      {moved && <span>, {moved}</span>}
      {more && <span>, {more}</span>}
      <span class="tag">{clock}</span>
    </p>
  );
}

class TimelinePicture {
  redraw = () => {};
  readonly #state: SessionState;
  readonly #fit: Signal<Fit | null>;
  readonly #focus: Signal<Bar | null>;
  #placed: { of: readonly Span[]; lanes: readonly LaneBars[] } | null = null;
  #rows: number[] = [];
  #chosen: Domain | null = null;
  #shown: Domain = { startMs: 0, endMs: 1000 };
  #width = 1;

  constructor(state: SessionState, fit: Signal<Fit | null>, focus: Signal<Bar | null>) {
    this.#state = state;
    this.#fit = fit;
    this.#focus = focus;
  }

  watch(): void {
    this.#state.spans.value;
    this.#state.turns.value;
    this.#fit.value;
    this.#focus.value;
  }

  layout(width: number): TimelineLayout {
    this.#place();
    return layoutTimeline(width, this.#rows);
  }

  /** Lanes only grow, so that the page below does not jump while a turn runs. */
  #place(): readonly LaneBars[] {
    const spans = this.#state.spans.peek();
    if (this.#placed?.of !== spans) {
      this.#placed = { of: spans, lanes: placeSpans(spans) };
      if (spans.length === 0) this.#rows = [];
      this.#rows = this.#placed.lanes.map(({ rows }, i) => Math.max(rows, this.#rows[i] ?? 1));
    }
    return this.#placed.lanes;
  }

  draw({ context, width, palette }: Frame): boolean {
    const { turns, nowMs, spans } = this.#state;
    const lanes = this.#place();
    const fit = this.#fit.peek();
    this.#width = width;
    const wanted = fit === null ? this.#chosen : fitTo(fit, turns.peek(), nowMs());
    this.#shown = wanted ?? wholeOf(spans.peek(), turns.peek());
    const model = { lanes, turns: turns.peek(), domain: this.#shown, focus: this.#focus.peek() };
    drawTimeline(context, width, this.layout(width), model, palette);
    const last = turns.peek().at(-1);
    return fit !== null && last !== undefined && last.endMs === null && last.error === null;
  }

  get #plot(): number {
    return this.#width - this.layout(this.#width).gutter;
  }

  get #whole(): Domain {
    return wholeOf(this.#state.spans.peek(), this.#state.turns.peek());
  }

  get domain(): Domain {
    return this.#shown;
  }

  /** From here on the user chooses what is shown, until a fit is asked for again. */
  choose(domain: Domain): void {
    this.#chosen = domain;
    this.#fit.value = null;
    this.redraw();
  }

  zoomAt(x: number, factor: number): void {
    const about = toMs(this.#shown, this.#plot, x - this.layout(this.#width).gutter);
    this.choose(zoom(this.#shown, this.#whole, about, factor));
  }

  panBy(pixels: number, from: Domain = this.#shown): void {
    this.choose(pan(from, this.#whole, (-pixels / this.#plot) * spanOf(from)));
  }

  pinched(before: Domain, from: [number, number], to: [number, number]): void {
    const { gutter } = this.layout(this.#width);
    const inside = ([a, b]: [number, number]): [number, number] => [a - gutter, b - gutter];
    this.choose(pinch(before, this.#whole, this.#plot, inside(from), inside(to)));
  }

  point(point: { x: number; y: number } | null): void {
    const bar = point && barAt(this.#place(), this.layout(this.#width), this.#shown, this.#width, point);
    if (bar !== this.#focus.peek()) this.#focus.value = bar;
  }

  key({ key, shiftKey }: KeyboardEvent): boolean {
    const middle = this.#width / 2;
    if (key === '+' || key === '=') this.zoomAt(middle, 0.7);
    else if (key === '-') this.zoomAt(middle, 1 / 0.7);
    else if (key === '0') this.#fit.value = 'first token';
    else if (key === 'Escape') this.#focus.value = null;
    else if (shiftKey && key === 'ArrowLeft') this.panBy(this.#plot * 0.15);
    else if (shiftKey && key === 'ArrowRight') this.panBy(-this.#plot * 0.15);
    else if (key === 'ArrowLeft' || key === 'ArrowRight' || key === 'ArrowUp' || key === 'ArrowDown') {
      this.#focus.value = barFrom(this.#place(), this.#shown, this.#focus.peek(), key);
    } else return false;
    return true;
  }
}

/** Wheel, mouse and fingers. Returns how to stop listening. */
function listenToHands(element: HTMLElement, picture: TimelinePicture): () => void {
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
  const move = (event: PointerEvent) => {
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
  // Without a modifier the wheel zooms only after the timeline was clicked or focused: else the page scrolls.
  const wheel = (event: WheelEvent) => {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (!sideways && !event.ctrlKey && !event.metaKey && !element.matches(':focus')) return;
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
  return () => {
    for (const [name, listener] of Object.entries(listeners)) {
      element.removeEventListener(name, listener as EventListener);
    }
    element.removeEventListener('wheel', wheel);
  };
}
