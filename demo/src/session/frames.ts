/** The browser's frames, from when they are asked for until nobody wants another. */

/** A frame's longest share: after a pause of the browser nothing is skipped unseen. */
const LONGEST_MS = 250;

export class Frames {
  readonly #each: (elapsedMs: number) => boolean;
  #pending = 0;
  #lastMs = 0;

  /** `each` is told the wall's milliseconds since the frame before; true: another one. */
  constructor(each: (elapsedMs: number) => boolean) {
    this.#each = each;
  }

  /** From now on, whatever was asked for before. */
  run(): void {
    this.stop();
    this.#lastMs = performance.now();
    this.#ask();
  }

  stop(): void {
    cancelAnimationFrame(this.#pending);
  }

  #ask(): void {
    this.#pending = requestAnimationFrame(() => {
      const now = performance.now();
      const elapsedMs = Math.min(now - this.#lastMs, LONGEST_MS);
      this.#lastMs = now;
      if (this.#each(elapsedMs)) this.#ask();
    });
  }
}
