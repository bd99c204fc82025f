/** When decode steps in a row end, each by its own context: as if each had been begun when the one before ended. */
import type { StepShape } from './costs/types.ts';

export class DecodeSteps {
  readonly startMs: number;
  /** Of those asked for, that begin before anything is due. */
  readonly count: number;
  /** When the last one ends. */
  readonly endMs: number;
  readonly stepMs: (shape: StepShape) => number;
  readonly #first: StepShape;

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
    this.#first = first;
    const next = this.walk();
    let count = 0;
    let endMs = startMs;
    while (count < most && (dueMs === null || endMs < dueMs)) {
      endMs = next();
      count++;
    }
    this.count = count;
    this.endMs = endMs;
  }

  /** Gives the ends one after the other. */
  walk(): () => number {
    const shape = { ...this.#first };
    let atMs = this.startMs;
    return () => {
      atMs += this.stepMs(shape);
      shape.decodeContext += shape.decodes;
      return atMs;
    };
  }

  /** Steps that are over at that time. */
  stepsUntil(atMs: number): number {
    const next = this.walk();
    let count = 0;
    while (count < this.count - 1 && next() <= atMs) count++;
    return count;
  }
}
