/** What is done to the engines on purpose: emptied, their holds ended, killed, and built anew. */
import { messageOf } from '../../../src/errors.ts';
import { systemClock } from '../../../src/platform/clock.ts';
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
      this.#bench.note('info', "P's prefix cache is empty: the next turn finds nothing there.");
    else if (emptied)
      this.#bench.note('warning', 'P keeps its cache while blocks are in use: let the turn end first.');
  }

  async expireHold(): Promise<void> {
    const ended = await this.#ofEach('decode', (engine) => engine.lab.expireHolds('decode'));
    if (!ended) return;
    const inStore = this.#bench.state.store.peek() !== null;
    this.#bench.note(
      'info',
      expiredInWords(
        ended.reduce((sum, count) => sum + count, 0),
        inStore,
      ),
    );
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
    // Whatever is done builds first what ended.
    await this.#bench.exclusive('Building what ended', async () => {});
  }

  /** Whatever turn is shown yet: what becomes of its engines is to be seen, and it may have ended long ago. */
  async #seeNow(): Promise<void> {
    this.#bench.playback.toNow();
    await systemClock.sleep(0);
  }

  /** What is done to every engine of the role that lives; null: it was not, as is said. */
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

/** So many holds of all D ran out. `inStore`: P may find there what it can pull no more. */
function expiredInWords(holds: number, inStore: boolean): string {
  if (holds === 0) return 'D holds nothing for P now.';
  const what = holds === 1 ? "D's hold ran out" : `${holds} of D's holds ran out`;
  return `${what}: what P would pull is gone, and P will compute${inStore ? ' what the store does not have' : ''}.`;
}

/** `others`: of its role, alive. `busy`: something runs, which may have needed it. */
export function killedInWords(role: Role, engineId: string, others: number, busy: boolean): string {
  const letter = role === 'prefill' ? 'P' : 'D';
  const number = /\d+/.exec(engineId)?.[0] ?? '';
  const name = others > 0 ? `${letter}${number}` : letter;
  const left = others > 0 ? '' : ` No ${letter} is left.`;
  // Whatever is done builds first what ended, and again what ended meanwhile.
  const then = busy
    ? 'What runs may fail; then it is built anew.'
    : 'The next question builds it anew first.';
  return `${name} was stopped without a word to the others.${left} ${then}`;
}
