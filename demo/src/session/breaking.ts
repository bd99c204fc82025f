/** What is done to the engines on purpose: emptied, their holds ended, killed, and built anew. */
import { messageOf } from '../../../src/errors.ts';
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
    await this.#atEngine('prefill', async (engine) => {
      const emptied = await engine.serving.resetPrefixCache();
      if (emptied) this.#bench.note('info', "P's prefix cache is empty: the next turn finds nothing there.");
      else this.#bench.note('warning', 'P keeps its cache while blocks are in use: let the turn end first.');
    });
  }

  async expireHold(): Promise<void> {
    await this.#atEngine('decode', async (engine) => {
      const ended = await engine.lab.expireHolds('decode');
      const what = ended === 1 ? "D's hold ran out" : `${ended} of D's holds ran out`;
      this.#bench.note(
        'info',
        ended > 0 ? `${what}: what P would pull is gone, and P will compute.` : 'D holds nothing for P now.',
      );
    });
  }

  async kill(role: Role): Promise<void> {
    if (this.#bench.refusesChange()) return;
    const drawn = this.#bench.state.drawn[role].peek();
    if (!drawn) return;
    this.#bench.state.playing.value = false;
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

  async #atEngine(role: Role, act: (engine: EngineHandle) => Promise<void>): Promise<void> {
    const { running } = this.#bench.engines;
    if (this.#bench.refusesChange() || !running) return;
    try {
      for (const engine of running.cluster.engines)
        if (engine.role === role && !engine.ended) await act(engine);
      await running.recorder.poll();
    } catch (error) {
      this.#bench.note('warning', messageOf(error));
    }
  }
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
