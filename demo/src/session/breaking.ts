/** Breaks engines on purpose: empties caches, expires holds, kills engines, and restarts them. */
import { messageOf } from '../../../src/errors.ts';
import { systemClock } from '../../../src/platform/clock.ts';
import { sum } from '../../../src/sum.ts';
import type { Engines } from './engines.ts';
import type { Role } from './types.ts';
import type { Workbench } from './workbench.ts';

type EngineHandle = ReturnType<NonNullable<Engines['running']>['cluster']['engine']>;

export class Breaking {
  readonly #bench: Workbench;

  constructor(bench: Workbench) {
    this.#bench = bench;
  }

  async evictPrefill(): Promise<void> {
    const emptied = await this.#ofEach('prefill', (engine) => engine.serving.resetPrefixCache());
    if (emptied?.every(Boolean))
      this.#bench.note('info', "P's prefix cache is empty. The next turn finds nothing in it.");
    else if (emptied)
      this.#bench.note(
        'warning',
        'P cannot empty its cache while blocks are in use: wait until the turn ends.',
      );
  }

  async expireHold(): Promise<void> {
    const ended = await this.#ofEach('decode', (engine) => engine.lab.expireHolds('decode'));
    if (!ended) return;
    const inStore = this.#bench.state.store.peek() !== null;
    this.#bench.note('info', expiredInWords(sum(ended), inStore));
  }

  async kill(role: Role): Promise<void> {
    if (this.#bench.refusesChange()) return;
    const drawn = this.#bench.state.drawn[role].peek();
    if (!drawn) return;
    this.#bench.state.playing.value = false;
    await this.#seeNow();
    const { engineId } = drawn;
    const others = [...this.#bench.state.engines.peek().values()].filter(
      (engine) => engine.role === role && engine.engineId !== engineId && engine.alive.peek(),
    );
    this.#bench.note('warning', killedInWords(role, engineId, others.length, this.#bench.busy));
    await this.#bench.engines.kill(engineId);
  }

  async revive(): Promise<void> {
    if (this.#bench.refusesChange()) return;
    // Every exclusive task first restarts engines that have ended.
    await this.#bench.exclusive('Restarting engines', async () => {});
  }

  /** Shows the present, so that the change to the engines is visible; the shown turn may have ended long ago. */
  async #seeNow(): Promise<void> {
    this.#bench.playback.toNow();
    await systemClock.sleep(0);
  }

  /** Acts on every live engine of the role and returns the results; null if refused or failed, which is reported. */
  async #ofEach<T>(role: Role, act: (engine: EngineHandle) => Promise<T>): Promise<T[] | null> {
    const { running } = this.#bench.engines;
    if (this.#bench.refusesChange() || !running) return null;
    await this.#seeNow();
    try {
      const done: T[] = [];
      for (const engine of running.cluster.engines)
        if (engine.role === role && !engine.ended) done.push(await act(engine));
      await running.recorder.poll();
      return done;
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
      return null;
    }
  }
}

/** `holds`: number of holds of all D that ran out. `inStore`: P may find the KV in the store. */
function expiredInWords(holds: number, inStore: boolean): string {
  if (holds === 0) return 'D holds nothing for P.';
  const what = holds === 1 ? "D's hold ran out" : `${holds} of D's holds ran out`;
  return `${what}. P cannot pull this KV any more and will compute ${inStore ? 'what the store does not have' : 'it again'}.`;
}

/** `others`: live engines of the same role. `busy`: something runs that may need the engine. */
export function killedInWords(role: Role, engineId: string, others: number, busy: boolean): string {
  const letter = role === 'prefill' ? 'P' : 'D';
  const number = /\d+/.exec(engineId)?.[0] ?? '';
  const name = others > 0 ? `${letter}${number}` : letter;
  const left = others > 0 ? '' : ` No ${letter} is left.`;
  // Every exclusive task restarts ended engines before and after it runs.
  const then = busy
    ? 'The running task may fail; then the engine restarts.'
    : 'The next question restarts it first.';
  return `${name} was stopped without telling the others.${left} ${then}`;
}
