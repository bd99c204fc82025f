/** Calls a function on each frame while it asks for more. */

/** The most time that one frame counts, so that a pause of the browser skips nothing. */
const LONGEST_MS = 250;

export class Frames {
  readonly #each: (elapsedMs: number) => boolean;
  #pending = 0;
  #lastMs = 0;

  /** `each` gets the wall milliseconds since the last frame and returns whether to continue. */
  constructor(each: (elapsedMs: number) => boolean) {
    this.#each = each;
  }

  /** Starts, or restarts. */
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
