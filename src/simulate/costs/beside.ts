/** What engines on one machine do to each other: all of a group at work, against each of them alone. */
import { mean } from 'simple-statistics';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import { type Asker, msPerToken } from './asker.ts';

/** One kind of work: how many tokens its rows have before them on average, and what a piece took, round by round. */
export type Distance = 'near' | 'far';

/** Engines that were at work at once, and what a piece of work took each, round by round; of one: alone. */
export interface Beside {
  engines: readonly ({ engineId: string; role: EngineRole } & Record<Distance, number[]>)[];
}

/** Tokens before a row, on average. */
export const CONTEXT: Readonly<Record<Distance, number>> = { near: 64, far: 400 };
/**
 * P at prompts, D at answers: so many rows or tokens, so many times at least. Beside no P an answer is a fifth of a second:
 * one a round told the speed of two D as 0.60 in one run and as 0.68 in the next.
 */
const PROMPTS = { near: 128, far: 32, times: 2 };
const ANSWER = { tokens: 32, times: 1, timesWithoutP: 2 };
/** Of a role, at work at once: what more of them do to each other goes on from there. */
const MOST_BESIDE = 3;

interface BesideDeps {
  ask: Asker;
  signal: AbortSignal;
  /** Tokens that a request may have. */
  room: number;
}

/** What pieces begin with, which the engine has: nothing for near ones of P. null: it keeps no prefixes, or has no room. */
type Begins = Record<Distance, readonly number[] | null>;

export class BesideMeter {
  readonly groups: readonly (Beside & { group: readonly EngineClient[] })[];
  readonly #deps: BesideDeps;
  readonly #byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>;

  constructor(byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>, deps: BesideDeps) {
    this.#deps = deps;
    this.#byRole = byRole;
    const alone = [...byRole.prefill, ...byRole.decode].map((engine) => [engine]);
    this.groups = [...alone, ...groupsOf(byRole)].map((group) => ({
      group,
      engines: group.map(({ engineId, role }) => ({ engineId, role, near: [], far: [] })),
    }));
  }

  /** `counts`: false for a round that only warms up. */
  async round(counts: boolean): Promise<void> {
    const begins = await this.#begins();
    for (const { group, engines } of this.groups) {
      const pieces = await this.#atWork(group, begins);
      for (const [i, { near, far }] of pieces.entries()) {
        if (!counts) continue;
        if (near.length > 0) engines[i]!.near.push(mean(near));
        if (far.length > 0) engines[i]!.far.push(mean(far));
      }
    }
  }

  /** By engine. D's near pieces too have their prompt there: while it is computed nobody is beside an answer. */
  async #begins(): Promise<ReadonlyMap<string, Begins>> {
    const begins = new Map<string, Begins>();
    for (const engine of [...this.#byRole.prefill, ...this.#byRole.decode]) {
      const decodes = engine.role === 'decode';
      const near = decodes ? await this.#known(engine, CONTEXT.near - ANSWER.tokens / 2) : null;
      const far = await this.#known(engine, CONTEXT.far - (decodes ? ANSWER.tokens : PROMPTS.far) / 2);
      begins.set(engine.engineId, { near, far });
    }
    return begins;
  }

  /** Tokens that the engine has from now on; null: it keeps no prefixes, or has no room for them and a piece. */
  async #known(engine: EngineClient, tokens: number): Promise<readonly number[] | null> {
    const { ask, room } = this.#deps;
    if (tokens + PROMPTS.far + ANSWER.tokens >= room) return null;
    const before = ask.prompt(tokens);
    await ask.engine(engine, 1, 1, before);
    const { found } = await ask.engine(engine, 1, 1, before);
    return found > 0 ? before : null;
  }

  /**
   * Of each engine, what its pieces took: near and far ones in turn. All are at work until each has done enough; what ends later,
   * with fewer beside it, does not count.
   */
  async #atWork(
    engines: readonly EngineClient[],
    begins: ReadonlyMap<string, Begins>,
  ): Promise<Record<Distance, number[]>[]> {
    const { signal } = this.#deps;
    let lacking = engines.length;
    const answers = engines.some(({ role }) => role === 'prefill') ? ANSWER.times : ANSWER.timesWithoutP;
    return Promise.all(
      engines.map(async (engine) => {
        const before = begins.get(engine.engineId)!;
        const times = engine.role === 'decode' ? answers : PROMPTS.times;
        const enough = before.far ? 2 * times : times;
        const pieces: Record<Distance, number[]> = { near: [], far: [] };
        try {
          for (let done = 0; lacking > 0; done++) {
            signal.throwIfAborted();
            const distance = before.far && done % 2 === 1 ? 'far' : 'near';
            const ms = await this.#pieceMs(engine, before[distance]);
            if (lacking === 0) break;
            pieces[distance].push(ms);
            if (done + 1 === enough) lacking--;
          }
        } catch (error) {
          lacking = 0;
          throw error;
        }
        return pieces;
      }),
    );
  }

  /** Of a prompt, or a token of an answer on average: a median would not see the few that waited long. `before`: what it begins with. */
  async #pieceMs(engine: EngineClient, before: readonly number[] | null): Promise<number> {
    const { ask, room } = this.#deps;
    if (engine.role === 'prefill') {
      const tokens = before ? PROMPTS.far : Math.min(PROMPTS.near, room - 1);
      const { arrivalMs, tokenMs } = await ask.engine(engine, tokens, 1, before ?? []);
      return tokenMs[0]! - arrivalMs;
    }
    const context = Math.min(CONTEXT.near - ANSWER.tokens / 2, Math.floor(room / 2));
    const answer = Math.min(ANSWER.tokens, room - context - 1);
    const { tokenMs } = await ask.engine(engine, before ? 1 : context, answer, before ?? []);
    return msPerToken(tokenMs);
  }
}

/** Two at least, of as many P and D as there can be, and of fewer. */
function groupsOf(byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>): EngineClient[][] {
  const [prefills, decodes] = [byRole.prefill.slice(0, MOST_BESIDE), byRole.decode.slice(0, MOST_BESIDE)];
  const groups: EngineClient[][] = [];
  for (let p = 0; p <= prefills.length; p++)
    for (let d = 0; d <= decodes.length; d++)
      if (p + d > 1) groups.push([...prefills.slice(0, p), ...decodes.slice(0, d)]);
  return groups;
}
