/** Measures contention on one machine: engines at work together, compared with each of them alone. */
import { mean } from 'simple-statistics';
import type { EngineClient, EngineRole } from '../../router/engine-client.ts';
import { type MeasuringRequests, msPerToken } from './measuring-requests.ts';

/** Whether the rows of a piece of work have few tokens before them or many: see CONTEXT. */
export type Distance = 'near' | 'far';

/**
 * Engines that were at work at once, and how long a piece of work took each, ms, round by round. A group of one is that
 * engine alone.
 */
export interface ConcurrentWork {
  engines: readonly ({ engineId: string; role: EngineRole } & Record<Distance, number[]>)[];
}

/** Tokens before a row, on average. */
export const CONTEXT: Readonly<Record<Distance, number>> = { near: 64, far: 400 };
/**
 * P computes prompts, D answers: this many rows or tokens, at least this many times. With no P at work, an answer takes
 * a fifth of a second: measured once a round, the speed of two D came out as 0.60 in one run and as 0.68 in the next.
 */
const PROMPTS = { near: 128, far: 32, times: 2 };
const ANSWER = { tokens: 32, times: 1, timesWithoutP: 2 };
/** Most engines of a role at work at once; the effect of more is extrapolated. */
const MOST_CONCURRENT = 3;

interface ContentionDeps {
  requests: MeasuringRequests;
  signal: AbortSignal;
  /** Tokens that a request may have. */
  room: number;
}

/**
 * Cached prefixes that pieces begin with; near pieces of P have none. null: there is none, or the engine keeps no
 * prefixes or has no room.
 */
type Prefixes = Record<Distance, readonly number[] | null>;

export class ContentionMeter {
  readonly groups: readonly (ConcurrentWork & { group: readonly EngineClient[] })[];
  readonly #deps: ContentionDeps;
  readonly #byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>;

  constructor(byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>, deps: ContentionDeps) {
    this.#deps = deps;
    this.#byRole = byRole;
    const alone = [...byRole.prefill, ...byRole.decode].map((engine) => [engine]);
    this.groups = [...alone, ...groupsOf(byRole)].map((group) => ({
      group,
      engines: group.map(({ engineId, role }) => ({ engineId, role, near: [], far: [] })),
    }));
  }

  /** Measures each group. `counts`: false for a round that only warms up. */
  async round(counts: boolean): Promise<void> {
    const prefixes = await this.#prefixes();
    for (const { group, engines } of this.groups) {
      const pieces = await this.#atWork(group, prefixes);
      for (const [i, { near, far }] of pieces.entries()) {
        if (!counts) continue;
        if (near.length > 0) engines[i]!.near.push(mean(near));
        if (far.length > 0) engines[i]!.far.push(mean(far));
      }
    }
  }

  /** Prefixes by engine. D's near pieces have a cached prompt too: while D computes a prompt, it decodes no answer. */
  async #prefixes(): Promise<ReadonlyMap<string, Prefixes>> {
    const prefixes = new Map<string, Prefixes>();
    for (const engine of [...this.#byRole.prefill, ...this.#byRole.decode]) {
      const decodes = engine.role === 'decode';
      const near = decodes ? await this.#cachedPrefix(engine, CONTEXT.near - ANSWER.tokens / 2) : null;
      const far = await this.#cachedPrefix(engine, CONTEXT.far - (decodes ? ANSWER.tokens : PROMPTS.far) / 2);
      prefixes.set(engine.engineId, { near, far });
    }
    return prefixes;
  }

  /**
   * A prefix of this many tokens that the engine has cached from now on; null: it keeps no prefixes, or has no room for
   * them and a piece.
   */
  async #cachedPrefix(engine: EngineClient, tokens: number): Promise<readonly number[] | null> {
    const { requests, room } = this.#deps;
    if (tokens + PROMPTS.far + ANSWER.tokens >= room) return null;
    const before = requests.prompt(tokens);
    await requests.toEngine(engine, 1, 1, before);
    const { found } = await requests.toEngine(engine, 1, 1, before);
    return found > 0 ? before : null;
  }

  /**
   * How long the pieces of each engine took, ms: near and far ones in turn. All are at work until each has done enough;
   * what ends later, with fewer at work, does not count.
   */
  async #atWork(
    engines: readonly EngineClient[],
    prefixes: ReadonlyMap<string, Prefixes>,
  ): Promise<Record<Distance, number[]>[]> {
    const { signal } = this.#deps;
    let unfinished = engines.length;
    const answers = engines.some(({ role }) => role === 'prefill') ? ANSWER.times : ANSWER.timesWithoutP;
    return Promise.all(
      engines.map(async (engine) => {
        const before = prefixes.get(engine.engineId)!;
        const times = engine.role === 'decode' ? answers : PROMPTS.times;
        const enough = before.far ? 2 * times : times;
        const pieces: Record<Distance, number[]> = { near: [], far: [] };
        try {
          for (let done = 0; unfinished > 0; done++) {
            signal.throwIfAborted();
            const distance = before.far && done % 2 === 1 ? 'far' : 'near';
            const ms = await this.#pieceMs(engine, before[distance]);
            if (unfinished === 0) break;
            pieces[distance].push(ms);
            if (done + 1 === enough) unfinished--;
          }
        } catch (error) {
          unfinished = 0;
          throw error;
        }
        return pieces;
      }),
    );
  }

  /**
   * Time of a prompt, or mean time of a token of an answer: a median would not see the few that waited long. `before`:
   * cached prefix.
   */
  async #pieceMs(engine: EngineClient, before: readonly number[] | null): Promise<number> {
    const { requests, room } = this.#deps;
    if (engine.role === 'prefill') {
      const tokens = before ? PROMPTS.far : Math.min(PROMPTS.near, room - 1);
      const { arrivalMs, tokenMs } = await requests.toEngine(engine, tokens, 1, before ?? []);
      return tokenMs[0]! - arrivalMs;
    }
    const context = Math.min(CONTEXT.near - ANSWER.tokens / 2, Math.floor(room / 2));
    const answer = Math.min(ANSWER.tokens, room - context - 1);
    const { tokenMs } = await requests.toEngine(engine, before ? 1 : context, answer, before ?? []);
    return msPerToken(tokenMs);
  }
}

/** Groups of at least two engines: every number of P with every number of D, up to MOST_BESIDE each. */
function groupsOf(byRole: Readonly<Record<EngineRole, readonly EngineClient[]>>): EngineClient[][] {
  const [prefills, decodes] = [
    byRole.prefill.slice(0, MOST_CONCURRENT),
    byRole.decode.slice(0, MOST_CONCURRENT),
  ];
  const groups: EngineClient[][] = [];
  for (let p = 0; p <= prefills.length; p++)
    for (let d = 0; d <= decodes.length; d++)
      if (p + d > 1) groups.push([...prefills.slice(0, p), ...decodes.slice(0, d)]);
  return groups;
}
