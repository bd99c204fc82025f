/**
 * When decode steps in a row end, each by its own context: as if each had been begun when the one before ended. Of one engine,
 * which takes one row of steps after the other: their times are written where those of the row before were. A row that goes on
 * where the one before was left has its times already.
 */
import type { StepShape } from './costs/types.ts';

const FIRST_ROOM = 64;

export class DecodeSteps {
  startMs = 0;
  /** Of those asked for, that begin before anything is due. */
  count = 0;
  readonly stepMs: (shape: StepShape) => number;
  #endsMs = new Float64Array(FIRST_ROOM);
  /** Of the first one that is written: its requests, and the tokens before theirs. */
  #decodes = 0;
  #context = 0;
  /** Ends that are written, and those of them that are of steps before the row's first. */
  #written = 0;
  #before = 0;

  constructor(stepMs: (shape: StepShape) => number) {
    this.stepMs = stepMs;
  }

  /** `first`: of the first of them; `dueMs`: when something else is to be done, null: nothing is. */
  plan(startMs: number, first: StepShape, most: number, dueMs: number | null): void {
    this.#beginAt(startMs, first);
    const shape = Object.assign({}, first);
    let endMs = startMs;
    let count = 0;
    while (count < most && (dueMs === null || endMs < dueMs)) {
      const place = this.#before + count;
      if (place === this.#written) {
        shape.decodeContext = first.decodeContext + count * first.decodes;
        this.#write(endMs + this.stepMs(shape));
      }
      endMs = this.#endsMs[place]!;
      count++;
    }
    this.startMs = startMs;
    this.count = count;
  }

  /** Of the first the 0th. */
  endOf(step: number): number {
    return this.#endsMs[this.#before + step]!;
  }

  /** When the last one ends. */
  get endMs(): number {
    return this.count > 0 ? this.endOf(this.count - 1) : this.startMs;
  }

  /** Steps that are over at that time, but for the last. `inclusive`: one that began before and ends at that time is, too. */
  stepsUntil(atMs: number, inclusive: boolean): number {
    const most = Math.max(0, this.count - 1);
    let low = 0;
    for (let high = most; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.endOf(middle) < atMs) low = middle + 1;
      else high = middle;
    }
    const begunMs = low > 0 ? this.endOf(low - 1) : this.startMs;
    return inclusive && low < most && this.endOf(low) === atMs && begunMs < atMs ? low + 1 : low;
  }

  /** Where an end is written at which the same requests have come so far, their further steps are as they were. */
  #beginAt(startMs: number, { decodes, decodeContext }: StepShape): void {
    const more = decodes === this.#decodes ? decodeContext - this.#context : 0;
    const steps = more > 0 && more % decodes === 0 ? more / decodes : 0;
    const goesOn = steps > 0 && steps <= this.#written && this.#endsMs[steps - 1] === startMs;
    this.#before = goesOn ? steps : 0;
    if (goesOn) return;
    this.#written = 0;
    this.#decodes = decodes;
    this.#context = decodeContext;
  }

  #write(endMs: number): void {
    if (this.#written === this.#endsMs.length) {
      const longer = new Float64Array(2 * this.#written);
      longer.set(this.#endsMs);
      this.#endsMs = longer;
    }
    this.#endsMs[this.#written++] = endMs;
  }
}
