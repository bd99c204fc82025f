/** How long drawing takes: every frame of every canvas is timed. Read it in the page's foot, or in performance.measure entries named `draw NAME`. */

export interface DrawTimes {
  frames: number;
  /** Over the last frames, milliseconds. */
  meanMs: number;
  p95Ms: number;
  maxMs: number;
}

const KEPT = 240;

class FrameMeter {
  readonly #recent = new Map<string, number[]>();
  readonly #frames = new Map<string, number>();

  record(name: string, ms: number): void {
    const recent = this.#recent.get(name) ?? [];
    recent.push(ms);
    if (recent.length > KEPT) recent.shift();
    this.#recent.set(name, recent);
    this.#frames.set(name, (this.#frames.get(name) ?? 0) + 1);
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
    drawing.record(name, end - start);
    const measure = `draw ${name}`;
    performance.measure(measure, { start, end });
    performance.clearMeasures(measure); // observers have it; the browser's list must not grow for ever
  }
}

/** For a look from outside: tests and developers read it in the console. */
Object.assign(globalThis, { kvferryDrawing: drawing });
