/**
 * Estimates how long dispatches take, learned from timed submits: milliseconds per unit of work, by pipeline. Used to
 * cut work into submits of a target duration; never reported as a measurement.
 */

export interface EstimatedWork {
  /** The pipeline. */
  key: object;
  /** Multiply-adds, or values touched: any unit proportional to time. */
  work: number;
}

/** Fixed cost of a dispatch, milliseconds. */
const DISPATCH_MS = 0.01;
/**
 * Rate before any measurement, in milliseconds per unit: that of a slow software adapter, so that the first submits are
 * short.
 */
const FIRST_GUESS = 1e-6;
/** Shorter dispatches are mostly round trip to the device. They only bound the rate from above. */
const MEASURABLE_MS = 2;
/** Runs of a dispatch to set a rate, unless it is too short to measure. */
const CALIBRATIONS = 3;
/**
 * Most round trip that a submit may cost on a busy machine. It must not count as work: small submits would look slow,
 * be cut smaller still, and never recover.
 */
const SUBMIT_MS = 1;
/** Lower bound of a rate, for submits that took no longer than their round trip. */
const LOWEST_RATE = 1e-12;
/** How far one submit moves the rates. They fall at once, since the cause of a slow submit may be temporary. */
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
   * Sets a rate from a dispatch that `time` runs alone, so many times in one submit; `time` returns milliseconds. A
   * dispatch that seems slow is repeated, and the shortest time counts: a pause of the thread would otherwise cut all
   * later work into small pieces. A dispatch too short to measure bounds the rate, on average over `together` of them:
   * on a GPU all are that short, and without the bound the first guess would keep prompts in the smallest pieces.
   */
  async calibrate(
    { key, work }: EstimatedWork,
    time: (times: number) => Promise<number>,
    together = 1,
  ): Promise<void> {
    let ms = await time(1);
    for (let again = 1; again < CALIBRATIONS && ms >= MEASURABLE_MS; again++)
      ms = Math.min(ms, await time(1));
    if (together > 1 && ms < MEASURABLE_MS) ms = Math.min(ms, (await time(together)) / together);
    if (work <= 0 || ms <= 0) return;
    const most = ms / work;
    this.#rates.set(key, ms >= MEASURABLE_MS ? most : Math.min(this.rate(key), most));
  }

  /** Corrects the rates of a submit's dispatches, each by its share of the estimate. */
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
