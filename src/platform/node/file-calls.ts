/**
 * Calls for files on a disk that may stop answering, as one on a network that is down: such a call neither returns nor
 * fails, and it occupies one of the four threads that all file calls of this process share.
 */
import { beginWait } from './hanging.ts';

/** One thread is left to others, who must get on if all of these hang. */
const AT_ONCE = 3;
/** A call that takes longer hangs, ms. Many times what a disk takes that has to spin up. */
const PATIENCE_MS = 20_000;

export class FileCalls {
  readonly #patienceMs: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #hanging = 0;

  constructor(patienceMs = PATIENCE_MS) {
    this.#patienceMs = patienceMs;
  }

  /**
   * Settles as the work does. Rejects once the work hangs, and as long as any hangs: it is the one that shows when the disk
   * answers again.
   */
  async run<T>(work: () => Promise<T>): Promise<T> {
    while (this.#running === AT_ONCE && this.#hanging === 0)
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (this.#hanging > 0) throw this.#silent();
    this.#running++;
    const endWait = beginWait();
    const done = work().finally(() => {
      this.#running--;
      endWait();
      this.#waiting.shift()?.();
    });
    return await this.#unlessItHangs(done);
  }

  #unlessItHangs<T>(done: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      let hangs = false;
      const late = (): void => {
        hangs = true;
        this.#hanging++;
        for (const wake of this.#waiting.splice(0)) wake();
        reject(this.#silent());
      };
      // In two halves, so that a process that was stopped meanwhile is not taken for a disk that hangs.
      const half = this.#patienceMs / 2;
      let timer = setTimeout(() => {
        timer = setTimeout(late, half);
      }, half);
      const end = (): void => {
        clearTimeout(timer);
        if (hangs) this.#hanging--;
      };
      done.finally(end).then(resolve, reject);
    });
  }

  #silent(): Error {
    return new Error(`no answer for ${this.#patienceMs / 1000} s: its disk or network may be down`);
  }
}
