/** The values of the last `seconds` seconds. Times are in milliseconds. */
import { sumOf } from '../../sum.ts';
export class TimeWindow {
  readonly #lengthMs: number;
  readonly #open: boolean;
  readonly #values: { atMs: number; value: number }[] = [];

  /** `open`: excludes values exactly as old as the window, but never one added at the current time. */
  constructor(seconds: number, open = false) {
    this.#lengthMs = 1000 * seconds;
    this.#open = open;
  }

  add(atMs: number, value: number): void {
    this.#values.push({ atMs, value });
    this.#forget(atMs);
  }

  /** null: the window is empty. */
  mean(atMs: number): number | null {
    this.#forget(atMs);
    const { length } = this.#values;
    return length === 0 ? null : sumOf(this.#values, ({ value }) => value) / length;
  }

  most(): number {
    return this.#values.reduce((most, { value }) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  }

  least(): number {
    return this.#values.reduce((least, { value }) => Math.min(least, value), Number.POSITIVE_INFINITY);
  }

  sum(): number {
    return sumOf(this.#values, ({ value }) => value);
  }

  #forget(atMs: number): void {
    const isOver = (age: number): boolean =>
      age > this.#lengthMs || (this.#open && age > 0 && age === this.#lengthMs);
    while (this.#values.length > 0 && isOver(atMs - this.#values[0]!.atMs)) this.#values.shift();
  }
}

/** Two windows, one for scaling up and one for scaling down. */
export class UpDownWindows {
  readonly up: TimeWindow;
  readonly down: TimeWindow;

  constructor(upSeconds: number, downSeconds: number, open = false) {
    this.up = new TimeWindow(upSeconds, open);
    this.down = new TimeWindow(downSeconds, open);
  }

  add(atMs: number, up: number, down: number): void {
    this.up.add(atMs, up);
    this.down.add(atMs, down);
  }
}
