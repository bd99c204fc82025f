/** Drawing times: per browser frame for the page's footer, and per canvas as performance.measure entries `draw NAME`. */

const KEPT = 240;
/** The first frames load fonts and compile code, so a few frames are not representative. */
const LEAST_FRAMES = 30;

export class FrameMeter {
  /** Milliseconds of all canvases together, for the last frames. */
  readonly #whole: number[] = [];
  #frameMs = Number.NaN;

  /** `frameMs`: the start of the browser's frame, the same for all canvases drawn in it. */
  record(ms: number, frameMs: number): void {
    if (frameMs === this.#frameMs) this.#whole[this.#whole.length - 1]! += ms;
    else this.#whole.push(ms);
    if (this.#whole.length > KEPT) this.#whole.shift();
    this.#frameMs = frameMs;
  }

  /** The median of the last frames; null until there are enough. */
  usualFrame(): { ms: number; frames: number } | null {
    const frames = this.#whole.length;
    if (frames < LEAST_FRAMES) return null;
    return { ms: this.#whole.toSorted((a, b) => a - b)[Math.floor(frames / 2)]!, frames };
  }
}

export const drawing = new FrameMeter();

/** Runs and times one frame's drawing of a canvas. */
export function timed<T>(name: string, draw: () => T): T {
  const start = performance.now();
  try {
    return draw();
  } finally {
    const end = performance.now();
    drawing.record(end - start, Number(document.timeline.currentTime ?? start));
    const measure = `draw ${name}`;
    performance.measure(measure, { start, end });
    performance.clearMeasures(measure); // observers have seen it; the browser's list must not grow forever
  }
}
