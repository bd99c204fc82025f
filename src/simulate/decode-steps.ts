/**
 * When decode steps in a row end, each by its own context: as if each had been begun when the one before ended. Of one engine,
 * which takes one row of steps after the other: their times are written where those of the row before were.
 */
import type { StepShape } from './costs/types.ts';

const FIRST_ROOM = 64;

export class DecodeSteps {
  startMs = 0;
  /** Of those asked for, that begin before anything is due. */
  count = 0;
  readonly stepMs: (shape: StepShape) => number;
  #endsMs = new Float64Array(FIRST_ROOM);

  constructor(stepMs: (shape: StepShape) => number) {
    this.stepMs = stepMs;
  }

  /** `first`: of the first of them; `dueMs`: when something else is to be done, null: nothing is. */
  plan(startMs: number, first: StepShape, most: number, dueMs: number | null): void {
    this.startMs = startMs;
    const shape = Object.assign({}, first);
    let endsMs = this.#endsMs;
    let endMs = startMs;
    let count = 0;
    while (count < most && (dueMs === null || endMs < dueMs)) {
      endMs += this.stepMs(shape);
      shape.decodeContext += shape.decodes;
      if (count === endsMs.length) endsMs = this.#longer();
      endsMs[count++] = endMs;
    }
    this.count = count;
  }

  /** Of the first the 0th. */
  endOf(step: number): number {
    return this.#endsMs[step]!;
  }

  /** When the last one ends. */
  get endMs(): number {
    return this.count > 0 ? this.#endsMs[this.count - 1]! : this.startMs;
  }

  /** Steps that are over at that time, but for the last. `inclusive`: one that began before and ends at that time is, too. */
  stepsUntil(atMs: number, inclusive: boolean): number {
    const endsMs = this.#endsMs;
    const most = Math.max(0, this.count - 1);
    let low = 0;
    for (let high = most; low < high; ) {
      const middle = (low + high) >> 1;
      if (endsMs[middle]! < atMs) low = middle + 1;
      else high = middle;
    }
    const begunMs = low > 0 ? endsMs[low - 1]! : this.startMs;
    return inclusive && low < most && endsMs[low] === atMs && begunMs < atMs ? low + 1 : low;
  }

  #longer(): Float64Array<ArrayBuffer> {
    const longer = new Float64Array(2 * this.#endsMs.length);
    longer.set(this.#endsMs);
    this.#endsMs = longer;
    return longer;
  }
}
