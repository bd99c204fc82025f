/** Collects TTFTs, and computes their quantiles over the last seconds. */
import { sortedQuantile } from '../../measure/statistics.ts';

/** A point counts the answers that ended within this time before it. */
const WINDOW_MS = 10_000;
/** Time from one point to the next. */
const POINT_MS = 1000;
/** Most answers that are remembered; beyond these, the oldest of a window are dropped. */
const MOST_SAMPLES = 20_000;

export interface LatencyPoint {
  /** End of its window. */
  atMs: number;
  /** Quantiles of the answers that ended in the window; null: none did. */
  p50Ms: number | null;
  p99Ms: number | null;
  answers: number;
}

interface Sample {
  endMs: number;
  ttftMs: number;
}

/** Samples must be added in the order in which they ended. */
export class LatencyWindow {
  readonly #points: LatencyPoint[] = [];
  readonly #mostPoints: number;
  #samples: Sample[] = [];
  #nextMs = POINT_MS;

  constructor(mostPoints: number = Number.POSITIVE_INFINITY) {
    this.#mostPoints = mostPoints;
  }

  /** The last ones, oldest first. */
  get points(): readonly LatencyPoint[] {
    return this.#points;
  }

  add(sample: Sample): void {
    this.until(sample.endMs);
    this.#samples.push(sample);
    if (this.#samples.length > MOST_SAMPLES) this.#samples.splice(0, MOST_SAMPLES / 10);
  }

  /** Computes the points up to nowMs. Call when everything that ended before has been added. */
  until(nowMs: number): void {
    for (; this.#nextMs <= nowMs; this.#nextMs += POINT_MS) {
      const atMs = this.#nextMs;
      this.#samples = this.#samples.filter(({ endMs }) => endMs > atMs - WINDOW_MS);
      const sorted = this.#samples.map(({ ttftMs }) => ttftMs).sort((a, b) => a - b);
      const at = (q: number) => (sorted.length > 0 ? sortedQuantile(sorted, q) : null);
      this.#points.push({ atMs, p50Ms: at(0.5), p99Ms: at(0.99), answers: sorted.length });
      if (this.#points.length > this.#mostPoints) this.#points.shift();
    }
  }
}
