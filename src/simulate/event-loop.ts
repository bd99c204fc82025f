/** What happens next on a virtual clock: engines to which something happened get on, and when none is left, time passes. */
import type { VirtualClock } from './clock.ts';
import type { SimulatedEngine } from './engine.ts';

/** Events between two calls of `onProgress`. */
const PROGRESS_EVENTS = 4096;
/** Longer than any READ is waited for. */
const LONGEST_WAIT_MS = 3_600_000;

interface EventLoopDeps {
  clock: VirtualClock;
  /** Calls back when promises that were resolved have run on: in the event loop's next task. */
  nextTask: (run: () => void) => void;
  /** Throws what is to be said where nothing is left to happen. */
  standsStill: () => never;
  /** Told of the engines that were looked after since the last time, when none is left; null: nothing is checked. */
  check: ((changed: ReadonlySet<SimulatedEngine>) => void) | null;
}

export class EventLoop {
  events = 0;
  readonly #deps: EventLoopDeps;
  /** Engines to look after, in the order in which something happened to them. */
  #touched: SimulatedEngine[] = [];
  readonly #changed = new Set<SimulatedEngine>();

  constructor(deps: EventLoopDeps) {
    this.#deps = deps;
  }

  touch(engine: SimulatedEngine): void {
    if (engine.isTouched) return;
    engine.isTouched = true;
    this.#touched.push(engine);
  }

  /**
   * Lets time pass until the work is over, whose promises wait for nothing but this clock; rejects with what it rejects
   * with. Throws InternalError when nothing is left to happen before that.
   */
  run<T>(work: Promise<T>, onProgress?: (nowMs: number) => Promise<void> | void): Promise<T> {
    const { clock, nextTask, standsStill } = this.#deps;
    return new Promise((resolve, reject) => {
      let end: (() => void) | null = null;
      work.then(
        (value) => {
          end = () => resolve(value);
        },
        (error: unknown) => {
          end = () => reject(error);
        },
      );
      // Over no promises of its own: each event would cost several.
      const goOn = (): void => {
        try {
          if (this.#lookAfter()) nextTask(goOn);
          else if (end) end();
          else {
            if (!clock.next()) standsStill();
            const waits = ++this.events % PROGRESS_EVENTS === 0 && onProgress?.(clock.now());
            if (waits) waits.then(() => nextTask(goOn), reject);
            else nextTask(goOn);
          }
        } catch (error) {
          reject(error);
        }
      };
      nextTask(goOn);
    });
  }

  /** Lets time pass until it is so, or nothing is to come, or a simulated hour went by. */
  async until(isSo: () => boolean): Promise<void> {
    const { clock, nextTask } = this.#deps;
    const endMs = clock.now() + LONGEST_WAIT_MS;
    do {
      do await new Promise<void>(nextTask);
      while (this.#lookAfter());
    } while (!isSo() && clock.now() < endMs && clock.next());
  }

  /**
   * Engines to which something happened get on, where they can. Call when all promises have run on, and again until it is
   * false: an engine may have let a connector's run on, of which nobody tells. Then nothing more happens without time passing.
   */
  #lookAfter(): boolean {
    const { check } = this.#deps;
    if (this.#touched.length === 0) {
      if (!check) return false;
      check(this.#changed);
      this.#changed.clear();
      return false;
    }
    const touched = this.#touched;
    this.#touched = [];
    for (const engine of touched) engine.isTouched = false;
    for (const engine of touched) {
      engine.look();
      engine.meter.look();
      if (check) this.#changed.add(engine);
    }
    return true;
  }
}
