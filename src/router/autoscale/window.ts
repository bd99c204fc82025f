/** Values of the last so many seconds. Times are in milliseconds. */
export class TimeWindow {
  readonly #lengthMs: number;
  readonly #values: { atMs: number; value: number }[] = [];

  constructor(seconds: number) {
    this.#lengthMs = 1000 * seconds;
  }

  add(atMs: number, value: number): void {
    this.#values.push({ atMs, value });
    this.#forget(atMs);
  }

  /** null: there is none. */
  mean(atMs: number): number | null {
    this.#forget(atMs);
    const { length } = this.#values;
    return length === 0 ? null : this.#values.reduce((sum, { value }) => sum + value, 0) / length;
  }

  most(): number {
    return this.#values.reduce((most, { value }) => Math.max(most, value), Number.NEGATIVE_INFINITY);
  }

  least(): number {
    return this.#values.reduce((least, { value }) => Math.min(least, value), Number.POSITIVE_INFINITY);
  }

  sum(): number {
    return this.#values.reduce((sum, { value }) => sum + value, 0);
  }

  /** What is older than the window; what is as old as it is stays. */
  #forget(atMs: number): void {
    while (this.#values.length > 0 && atMs - this.#values[0]!.atMs > this.#lengthMs) this.#values.shift();
  }
}

/** Something for each way: up, and down. */
export class BothWays {
  readonly up: TimeWindow;
  readonly down: TimeWindow;

  constructor(upSeconds: number, downSeconds: number) {
    this.up = new TimeWindow(upSeconds);
    this.down = new TimeWindow(downSeconds);
  }

  add(atMs: number, up: number, down: number): void {
    this.up.add(atMs, up);
    this.down.add(atMs, down);
  }
}
