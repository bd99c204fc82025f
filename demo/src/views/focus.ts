/**
 * Keeps the keyboard's focus on the page when the focused control is removed: it goes to the list item or section that had the control.
 * A view that knows a better place sets the focus in a layout effect, which comes first.
 */

/** The focused element and those around it, from the inside out. */
let around: Element[] = [];

/** Call once, in a browser. */
export function watchFocus(): void {
  addEventListener('focusin', (event) => {
    around = event.composedPath().filter((one): one is Element => one instanceof Element);
  });
  // A click beside all controls takes the focus on purpose.
  addEventListener('pointerdown', () => {
    around = [];
  });
  new MutationObserver(follow).observe(document.body, { childList: true, subtree: true });
}

function follow(): void {
  const [last] = around;
  if (!last || last.isConnected || document.activeElement !== document.body) return;
  const near = around.find((one) => one.isConnected && one.matches('li, section, main, header'));
  takeFocus((near ?? document.querySelector('main')) as HTMLElement);
}

/** Focuses an element that otherwise takes no focus. */
function takeFocus(element: HTMLElement): void {
  if (!element.hasAttribute('tabindex')) {
    element.tabIndex = -1;
    element.addEventListener('blur', () => element.removeAttribute('tabindex'), { once: true });
  }
  element.focus({ preventScroll: true });
}
