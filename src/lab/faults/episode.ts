/** One episode of fault testing: several clients converse, a few faults are injected, and then everything is checked. */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { Clock } from '../../engine/types.ts';
import { KvferryError, messageOf } from '../../errors.ts';
import { type Fault, type FaultKind, makeSchedule } from '../../faults/schedule.ts';
import type { EngineCluster } from '../../fleet/cluster.ts';
import type { PolicyChange } from '../../fleet/types.ts';
import { seededGenerator } from '../../seeded.ts';
import { type CheckedCluster, checkCalm, type Found } from './checks.ts';
import { LONGEST, type Script, type ScriptedTurn } from './script.ts';
import type { Storm } from './storm.ts';
import type { TurnOutcome } from './types.ts';
import { Hangs, within } from './watch.ts';

/** Faults of an episode's schedule. */
export const FAULTS_EACH = 4;
const FILLERS = 3;

/** The part of a cluster that an episode uses. */
export type StormyCluster = CheckedCluster &
  Pick<EngineCluster, 'settings' | 'configure' | 'generate' | 'endConversation'>;

export interface EpisodeDeps {
  cluster: StormyCluster;
  storm: Pick<Storm, 'begin' | 'calm' | 'setClocksRight'>;
  scripts: readonly Script[];
  clock: Clock;
  kinds: readonly FaultKind[];
  /** Injects only these faults of the schedule, numbered from 1; null: all. */
  picks: readonly number[] | null;
  /** Milliseconds after which a call counts as hanging. */
  patienceMs: number;
  /** Milliseconds within which blocks without a reader must be freed. */
  drainMs: number;
  signal: AbortSignal;
}

export interface EpisodeResult {
  /** In order, each with the outcomes of the turns that were in progress. */
  faults: readonly { fault: Fault; turns: readonly TurnOutcome[] }[];
  turns: Record<TurnOutcome, number>;
  errors: Record<string, number>;
  found: readonly Found[];
}

/** A turn in progress. */
interface OpenTurn {
  leave: AbortController;
  /** Faults that happened during the turn. */
  met: { turns: TurnOutcome[] }[];
}

class Left extends Error {}

/** Error codes with which a turn may end; any other error is a bug. */
const TYPED: readonly string[] = ['transfer', 'refused', 'engine_dead'];

/** Reports violations in `found`. Throws only if the cluster can no longer be used. */
export async function runEpisode(seed: number, deps: EpisodeDeps): Promise<EpisodeResult> {
  return new Episode(seed, deps).run();
}

class Episode {
  readonly #seed: number;
  readonly #deps: EpisodeDeps;
  readonly #open = new Set<OpenTurn>();
  readonly #talks = new Set<Promise<void>>();
  readonly #conversations: string[] = [];
  readonly #faults: { fault: Fault; turns: TurnOutcome[] }[] = [];
  readonly #turns: Record<TurnOutcome, number> = { right: 0, error: 0, left: 0 };
  readonly #errors: Record<string, number> = {};
  readonly #found: Found[] = [];
  #failover = false;

  constructor(seed: number, deps: EpisodeDeps) {
    this.#seed = seed;
    this.#deps = deps;
  }

  async run(): Promise<EpisodeResult> {
    const { cluster, storm, kinds, picks, clock, drainMs } = this.#deps;
    const { change, clients, failover } = drawn(this.#seed, cluster);
    this.#failover = failover;
    await this.#bounded('configure()', cluster.configure(change));
    if (this.#found.length > 0) return this.#result();
    const schedule = makeSchedule(this.#seed, { kinds, faults: FAULTS_EACH, span: 2 * clients });
    storm.begin(
      picks ? schedule.filter((_, i) => picks.includes(i + 1)) : schedule,
      { leave: (all) => this.#leave(all), fill: () => this.#talk(FILLERS, 1) },
      (fault) => {
        const happened = { fault, turns: [] };
        this.#faults.push(happened);
        for (const turn of this.#open) turn.met.push(happened);
      },
    );
    this.#talk(clients, Number.POSITIVE_INFINITY);
    while (this.#talks.size > 0) await Promise.all(this.#talks);
    await this.#bounded('replacing engines', storm.calm());
    for (const id of this.#conversations) await cluster.endConversation(id);
    const calm = checkCalm(cluster, clock, drainMs);
    this.#found.push(...((await this.#bounded('stats()', calm, drainMs)) ?? []));
    await storm.setClocksRight();
    return this.#result();
  }

  #result(): EpisodeResult {
    return { faults: this.#faults, turns: this.#turns, errors: this.#errors, found: this.#found };
  }

  /** Starts `count` conversations of at most `turns` turns each. */
  #talk(count: number, turns: number): void {
    for (let i = 0; i < count; i++) {
      const number = this.#conversations.length;
      const { scripts } = this.#deps;
      const id = `storm-${this.#seed}-${number}`;
      this.#conversations.push(id);
      const talk = this.#converse(id, scripts[(this.#seed + number) % scripts.length]!.slice(0, turns));
      const running = talk.finally(() => this.#talks.delete(running));
      this.#talks.add(running);
    }
  }

  async #converse(id: string, script: readonly ScriptedTurn[]): Promise<void> {
    for (const [i, turn] of script.entries()) {
      if (this.#deps.signal.aborted) return;
      const open: OpenTurn = { leave: new AbortController(), met: [] };
      this.#open.add(open);
      const outcome = await this.#serve(`${id}, turn ${i + 1}`, id, turn, open);
      this.#open.delete(open);
      this.#turns[outcome]++;
      for (const { turns } of open.met) turns.push(outcome);
    }
  }

  async #serve(
    what: string,
    conversationId: string,
    turn: ScriptedTurn,
    open: OpenTurn,
  ): Promise<TurnOutcome> {
    const { clock, patienceMs } = this.#deps;
    const { promptTokenIds, sampling } = turn;
    const received: string[] = [];
    const receive = async (): Promise<void> => {
      const request = { conversationId, promptTokenIds, sampling, failover: this.#failover };
      for await (const token of this.#deps.cluster.generate({ ...request, signal: open.leave.signal }))
        received.push(`${token.tokenId}:${token.logitsDigest}`);
    };
    try {
      await within(clock, patienceMs, what, receive());
      const early = received.length < turn.answer.length ? 'the answer ended early without an error' : null;
      const wrong = differs(received, turn.answer) ?? early;
      if (wrong) this.#found.push({ kind: 'wrong tokens', detail: `${what}: ${wrong}` });
      return 'right';
    } catch (error) {
      const wrong = differs(received, turn.answer);
      if (wrong) this.#found.push({ kind: 'wrong tokens', detail: `${what}: ${wrong}` });
      if (error instanceof Left) return 'left';
      if (error instanceof Hangs) {
        this.#found.push({ kind: 'caller hangs', detail: error.message });
        open.leave.abort(new Left());
        return 'error';
      }
      const code = error instanceof KvferryError ? error.code : 'none';
      this.#errors[code] = (this.#errors[code] ?? 0) + 1;
      if (!TYPED.includes(code))
        this.#found.push({ kind: 'untyped error', detail: `${what}: ${code}: ${messageOf(error)}` });
      return 'error';
    }
  }

  #leave(all: boolean): void {
    for (const { leave } of all ? this.#open : [...this.#open].slice(-1)) leave.abort(new Left());
  }

  /** Awaits the promise within the patience. null: it hung or failed, which is recorded. */
  async #bounded<T>(what: string, promise: Promise<T>, moreMs = 0): Promise<T | null> {
    const { clock, patienceMs } = this.#deps;
    try {
      return await within(clock, patienceMs + moreMs, what, promise);
    } catch (error) {
      const kind = error instanceof Hangs ? 'caller hangs' : 'cannot go on';
      this.#found.push({ kind, detail: `${what}: ${messageOf(error)}` });
      return null;
    }
  }
}

/** The first difference between the tokens received and the answer; null: they are a prefix of it. */
function differs(received: readonly string[], answer: readonly string[]): string | null {
  const at = received.findIndex((token, i) => token !== answer[i]);
  return at < 0 ? null : `token ${at} is ${received[at]}, but a single engine gives ${answer[at] ?? 'none'}`;
}

function drawn(
  seed: number,
  { settings }: Pick<EngineCluster, 'settings'>,
): { change: PolicyChange; clients: number; failover: boolean } {
  const random = seededGenerator(~seed);
  const between = (from: number, to: number): number => uniformInt(random, from, to);
  const { blockSize, prefill, decode } = settings;
  const least = Math.ceil(LONGEST / blockSize) + 1;
  const pool = (most: number): number => Math.min(most, between(0, 1) ? most : least + between(1, 6));
  const clients = between(2, 4);
  return {
    clients,
    failover: between(0, 2) === 0,
    change: {
      mode: 'bidirectional',
      handover: between(0, 2) === 0 ? 'streamed' : 'pull',
      recomputeThreshold: between(0, 1) * 16,
      prefixCaching: between(0, 1) === 1,
      prefillBlocks: pool(prefill.numBlocks),
      decodeBlocks: pool(decode.numBlocks),
      loadFailurePolicy: between(0, 2) === 0 ? 'fail' : 'recompute',
    },
  };
}
