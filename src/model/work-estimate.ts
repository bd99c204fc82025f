/**
 * How long dispatches take, learned from submits that were timed: milliseconds per unit of work, by pipeline. Used to cut
 * work into submits of a wanted length; nothing here is reported as a measurement.
 */

export interface EstimatedWork {
  /** The pipeline. */
  key: object;
  /** Multiply-adds, or values touched: any unit that grows as the time does. */
  work: number;
}

/** What a dispatch costs whatever its size, milliseconds. */
const DISPATCH_MS = 0.01;
/** Before anything was measured: a slow software adapter, so that the first submits are short. */
const FIRST_GUESS = 1e-6;
/** Of dispatches shorter than this most is the way to the device and back: they tell only that the rate is no higher. */
const MEASURABLE_MS = 2;
/** Times that a dispatch is run to set a rate, unless it is too short for one. */
const CALIBRATIONS = 3;
/**
 * What a submit's way to the device and back may cost on a busy machine. It is no fault of the work: counted as such,
 * small submits would look slow, be cut smaller still, and never recover.
 */
const SUBMIT_MS = 1;
/** A rate never falls below this: a submit that cost nothing but its way tells only that work is cheap. */
const LOWEST_RATE = 1e-12;
/** How far one submit moves the rates: down at once, since what made one slow may pass. */
const LEARNING_UP = 0.3;
const LEARNING_DOWN = 1;

export class WorkEstimate {
  readonly #rates = new Map<object, number>();

  /** Milliseconds per unit of work. */
  rate(key: object): number {
    return this.#rates.get(key) ?? FIRST_GUESS;
  }

  milliseconds({ key, work }: EstimatedWork): number {
    return DISPATCH_MS + work * this.rate(key);
  }

  /**
   * Sets a rate from a dispatch that `time` runs alone, milliseconds. One that seems slow is run again, and the least time
   * counts: a moment in which the thread stood still would cut all later work into small pieces. One that is too short to be
   * measured bounds the rate: on a GPU all are, and the first guess would keep prompts in the smallest pieces.
   */
  async calibrate({ key, work }: EstimatedWork, time: () => Promise<number>): Promise<void> {
    let ms = await time();
    for (let again = 1; again < CALIBRATIONS && ms >= MEASURABLE_MS; again++) ms = Math.min(ms, await time());
    if (work <= 0 || ms <= 0) return;
    const most = ms / work;
    this.#rates.set(key, ms >= MEASURABLE_MS ? most : Math.min(this.rate(key), most));
  }

  /** Corrects the rates of what a submit held, each by its share of the estimate. */
  learn(submit: readonly EstimatedWork[], ms: number): void {
    const estimates = submit.map((part) => this.milliseconds(part));
    const total = estimates.reduce((sum, estimate) => sum + estimate, 0);
    if (total <= 0 || ms <= 0) return;
    const ratio = Math.min(Math.max((ms - SUBMIT_MS) / total, 0.1), 10);
    const learning = ratio < 1 ? LEARNING_DOWN : LEARNING_UP;
    const shares = new Map<object, number>();
    for (const [i, { key }] of submit.entries()) {
      shares.set(key, (shares.get(key) ?? 0) + estimates[i]! / total);
    }
    for (const [key, share] of shares) {
      this.#rates.set(key, Math.max(LOWEST_RATE, this.rate(key) * ratio ** (learning * share)));
    }
  }
}
