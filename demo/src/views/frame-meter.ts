/**
 * Measures drawing times, per canvas and per browser frame. Shown in the page's footer and in performance.measure
 * entries named `draw NAME`.
 */

export interface DrawTimes {
  frames: number;
  /** Over the last frames, milliseconds. */
  meanMs: number;
  p95Ms: number;
  maxMs: number;
}

const KEPT = 240;
/** The first frames load fonts and compile code, so a few frames are not representative. */
const LEAST_FRAMES = 30;

export class FrameMeter {
  readonly #recent = new Map<string, number[]>();
  readonly #frames = new Map<string, number>();
  /** Milliseconds of all canvases together, for the last frames. */
  readonly #whole: number[] = [];
  #frameMs = Number.NaN;

  /** `frameMs`: the start of the browser's frame, the same for all canvases drawn in it. */
  record(name: string, ms: number, frameMs: number): void {
    if (frameMs === this.#frameMs) this.#whole[this.#whole.length - 1]! += ms;
    else this.#whole.push(ms);
    if (this.#whole.length > KEPT) this.#whole.shift();
    this.#frameMs = frameMs;
    const recent = this.#recent.get(name) ?? [];
    recent.push(ms);
    if (recent.length > KEPT) recent.shift();
    this.#recent.set(name, recent);
    this.#frames.set(name, (this.#frames.get(name) ?? 0) + 1);
  }

  /** The median of the last frames; null until there are enough. */
  usualFrame(): { ms: number; frames: number } | null {
    const frames = this.#whole.length;
    if (frames < LEAST_FRAMES) return null;
    return { ms: this.#whole.toSorted((a, b) => a - b)[Math.floor(frames / 2)]!, frames };
  }

  times(): Record<string, DrawTimes> {
    return Object.fromEntries(
      [...this.#recent].map(([name, recent]) => {
        const sorted = [...recent].sort((a, b) => a - b);
        return [
          name,
          {
            frames: this.#frames.get(name)!,
            meanMs: recent.reduce((sum, ms) => sum + ms, 0) / recent.length,
            p95Ms: sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.95))]!,
            maxMs: sorted.at(-1)!,
          },
        ];
      }),
    );
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
    drawing.record(name, end - start, Number(document.timeline.currentTime ?? start));
    const measure = `draw ${name}`;
    performance.measure(measure, { start, end });
    performance.clearMeasures(measure); // observers have seen it; the browser's list must not grow forever
  }
}

/** For tests and the developer console. */
Object.assign(globalThis, { kvferryDrawing: drawing });
