/** Drives the virtual clock: first engines to which something happened proceed; when none is left, time passes. */
import type { VirtualClock } from './clock.ts';
import type { SimulatedEngine } from './engines/engine.ts';

/** Events between two calls of `onProgress`. */
const PROGRESS_EVENTS = 4096;
/** Longer than any wait for a READ. */
const LONGEST_WAIT_MS = 3_600_000;

interface EventLoopDeps {
  clock: VirtualClock;
  /** Calls back in the event loop's next task, when the continuations of resolved promises have run. */
  nextTask: (run: () => void) => void;
  /** Called when no event is left and the work is not over: throws an error that says what waits. */
  onStuck: () => never;
  /** Called with the engines that were handled since its last call, when none is left to handle; null: no checks. */
  check: ((changed: ReadonlySet<SimulatedEngine>) => void) | null;
}

export class EventLoop {
  events = 0;
  readonly #deps: EventLoopDeps;
  /** Engines to handle, in the order in which something happened to them. */
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
   * Lets time pass until `work` is settled, then settles likewise. `work` must wait for nothing but this clock. Rejects
   * with InternalError if no event is left before that.
   */
  run<T>(work: Promise<T>, onProgress?: (nowMs: number) => Promise<void> | void): Promise<T> {
    const { clock, nextTask, onStuck } = this.#deps;
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
      // Without promises of its own, which would cost several for each event.
      const goOn = (): void => {
        try {
          if (this.#handleTouched()) nextTask(goOn);
          else if (end) end();
          else {
            if (!clock.next()) onStuck();
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

  /** Lets time pass until isSo() is true, no event is left, or a simulated hour has passed. */
  async until(isSo: () => boolean): Promise<void> {
    const { clock, nextTask } = this.#deps;
    const endMs = clock.now() + LONGEST_WAIT_MS;
    do {
      do await new Promise<void>(nextTask);
      while (this.#handleTouched());
    } while (!isSo() && clock.now() < endMs && clock.next());
  }

  /**
   * Lets engines to which something happened proceed where they can. Call it when the continuations of all resolved
   * promises have run, and again until it returns false: an engine may have resolved promises of a connector, which
   * nothing reports. After that, nothing happens until time passes.
   */
  #handleTouched(): boolean {
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
      engine.beginStep();
      engine.meter.update();
      if (check) this.#changed.add(engine);
    }
    return true;
  }
}
