/**
 * The times at which consecutive decode steps of an engine end, each computed from its context, as if it had begun when
 * the one before ended. An engine has one such row at a time, and each row overwrites the one before. A row that
 * continues where the one before was left already has its times.
 */
import type { StepShape } from '../costs/types.ts';

const FIRST_ROOM = 64;

export class DecodeSteps {
  startMs = 0;
  /** Planned steps that begin before anything else is due. */
  count = 0;
  readonly stepMs: (shape: StepShape) => number;
  #endsMs = new Float64Array(FIRST_ROOM);
  /** Requests of the first written step, and the tokens before theirs. */
  #decodes = 0;
  #context = 0;
  /** Number of written ends, and how many of them are of steps before the row's first. */
  #written = 0;
  #before = 0;

  constructor(stepMs: (shape: StepShape) => number) {
    this.stepMs = stepMs;
  }

  /**
   * Plans `most` steps from startMs on, or fewer. `first`: shape of the first one; `dueMs`: when something else is due,
   * null: nothing is.
   */
  plan(startMs: number, first: StepShape, most: number, dueMs: number | null): void {
    this.#beginAt(startMs, first);
    const { decodes, decodeContext, prefills, prefillTokens, prefillContext } = first;
    const shape = { decodes, decodeContext, prefills, prefillTokens, prefillContext };
    let endMs = startMs;
    let count = 0;
    while (count < most && (dueMs === null || endMs < dueMs)) {
      const place = this.#before + count;
      if (place === this.#written) {
        shape.decodeContext = decodeContext + count * decodes;
        this.#write(endMs + this.stepMs(shape));
      }
      endMs = this.#endsMs[place]!;
      count++;
    }
    this.startMs = startMs;
    this.count = count;
  }

  /** When a step ends, ms; the first is 0. */
  endOf(step: number): number {
    return this.#endsMs[this.#before + step]!;
  }

  /** When the last one ends. */
  get endMs(): number {
    return this.count > 0 ? this.endOf(this.count - 1) : this.startMs;
  }

  /**
   * Number of steps that are over at atMs, the last one never included. `inclusive`: counts one that ends exactly at
   * atMs, if it began before.
   */
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

  /** If an end is already written at which the same requests had come this far, their further steps are the same. */
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
