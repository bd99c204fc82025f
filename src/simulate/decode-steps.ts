/** When decode steps in a row end, each by its own context: as if each had been begun when the one before ended. */
import type { StepShape } from './costs/types.ts';

export class DecodeSteps {
  readonly startMs: number;
  /** Of those asked for, that begin before anything is due. */
  readonly count: number;
  /** When each of them ends. */
  readonly endsMs: readonly number[];
  readonly stepMs: (shape: StepShape) => number;

  /** `first`: of the first of them; `dueMs`: when something else is to be done, null: nothing is. */
  constructor(
    startMs: number,
    first: StepShape,
    most: number,
    dueMs: number | null,
    stepMs: (shape: StepShape) => number,
  ) {
    this.startMs = startMs;
    this.stepMs = stepMs;
    const shape = { ...first };
    const endsMs: number[] = [];
    let endMs = startMs;
    while (endsMs.length < most && (dueMs === null || endMs < dueMs)) {
      endMs += stepMs(shape);
      shape.decodeContext += shape.decodes;
      endsMs.push(endMs);
    }
    this.endsMs = endsMs;
    this.count = endsMs.length;
  }

  /** When the last one ends. */
  get endMs(): number {
    return this.endsMs[this.count - 1] ?? this.startMs;
  }

  /** Steps that are over at that time, but for the last. `inclusive`: one that began before and ends at that time is, too. */
  stepsUntil(atMs: number, inclusive: boolean): number {
    const most = Math.max(0, this.count - 1);
    let low = 0;
    for (let high = most; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.endsMs[middle]! < atMs) low = middle + 1;
      else high = middle;
    }
    const begunMs = this.endsMs[low - 1] ?? this.startMs;
    return inclusive && low < most && this.endsMs[low] === atMs && begunMs < atMs ? low + 1 : low;
  }
}
