/**
 * Measures READs between engines while others compute: how much longer they take, and how much they delay concurrent
 * steps.
 */
import { mean, sum } from 'simple-statistics';
import { twoTurnsPool } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import { foldStages } from '../../measure/spans/stages.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { sumOf } from '../../sum.ts';
import { CONTEXT } from './contention.ts';
import { type MeasuredTurn, type MeasuringRequests, msPerToken, TokenCounts } from './measuring-requests.ts';

/** Prompts that are handed over while D decodes a long answer, tokens. */
const READ_TOKENS = [48, 192];
const LONG_ANSWER = 96;
/** Tokens of each D between two handovers: the steps in between are the baseline for those that a handover overlaps. */
const BETWEEN = 4;
/** Conversations that continue, for P to pull what D has of them; fewer if there is no room. */
const CONTINUED = 6;
/** New tokens of such a turn. */
const NEW_TOKENS = 4;

/** The READ of a handover while every D decoded. */
export interface OverlappingRead {
  readMs: number;
  bytes: number;
  /** Mean time between two tokens of a D at that time. */
  stepMs: number;
}

/** Consecutive decode steps of one D: those that handovers overlap, or a single one that none does. */
export interface StepGroup {
  steps: number;
  ms: number;
  /** Milliseconds of them in which P computed prompts. */
  prefillMs: number;
  handovers: number;
  /** Handovers before which P had pulled. */
  pulls: number;
}

/**
 * READs of a turn, from the first one to D's token, and when P computed the prompt: before them, or after it had
 * pulled. Times in ms.
 */
interface Handover {
  prefillMs: readonly [from: number, to: number];
  fromMs: number;
  toMs: number;
  pulled: boolean;
}

interface ReadMeterDeps {
  cluster: Cluster;
  requests: MeasuringRequests;
  signal: AbortSignal;
  /** Tokens that a request may have. */
  room: number;
}

export class ReadMeter {
  readonly reads: OverlappingRead[] = [];
  readonly steps: StepGroup[] = [];
  /** The D that decode meanwhile. */
  readonly decodes: readonly EngineClient[];
  readonly #deps: ReadMeterDeps;
  #rounds = 0;

  constructor(decodes: readonly EngineClient[], deps: ReadMeterDeps) {
    this.decodes = decodes;
    this.#deps = deps;
  }

  /**
   * Hands prompts over, one after the other, while every D decodes. In every other round, starting with the first,
   * these are turns of conversations that continue. `counts`: false for a round that only warms up.
   */
  async round(counts: boolean): Promise<void> {
    const { requests, cluster, room } = this.#deps;
    const tokens = READ_TOKENS.filter(
      (length) => length < room && twoTurnsPool(length, NEW_TOKENS, cluster.settings) !== null,
    );
    const answer = Math.min(LONG_ANSWER, room - CONTEXT.near - 1);
    if (tokens.length === 0 || answer < 2) return;
    const continues = this.#rounds++ % 2 === 0;
    await cluster.configure({ mode: continues ? 'bidirectional' : 'unidirectional' });
    const conversations: MeasuredTurn[] = [];
    const next = (i: number): Promise<MeasuredTurn> => {
      const before = conversations[i];
      return before
        ? requests.nextTurn(cluster, before, NEW_TOKENS)
        : requests.singleTurn(cluster, tokens[i % tokens.length]!);
    };
    try {
      if (continues) await this.#begin(conversations, tokens, room - CONTEXT.near - answer);
      await this.#handOver(next, answer, counts);
    } finally {
      for (const { conversationId } of conversations) await cluster.endConversation(conversationId);
    }
  }

  /** Serves the first turns of conversations whose KV D keeps, and no P. */
  async #begin(conversations: MeasuredTurn[], tokens: readonly number[], room: number): Promise<void> {
    const { requests, cluster, signal } = this.#deps;
    for (let left = room; conversations.length < CONTINUED; ) {
      const length = tokens[conversations.length % tokens.length]!;
      left -= length + NEW_TOKENS + 2 * cluster.settings.blockSize;
      if (left < 0) break;
      signal.throwIfAborted();
      const turn = await requests.firstTurn(cluster, length);
      conversations.push(turn);
      for (const engine of cluster.engines)
        if (engine.role === 'prefill') await engine.forgetPrefix(turn.promptTokenIds, null, 0);
    }
  }

  async #handOver(
    next: (i: number) => Promise<MeasuredTurn>,
    answer: number,
    counts: boolean,
  ): Promise<void> {
    const { requests, signal } = this.#deps;
    const tokenCounts = new TokenCounts(this.decodes.length);
    const answers = Promise.all(
      this.decodes.map((engine, i) =>
        requests.toEngine(engine, CONTEXT.near, answer, [], (count) => tokenCounts.update(i, count)),
      ),
    ).finally(() => tokenCounts.end());
    const handovers: (Handover & { readMs: number; bytes: number })[] = [];
    const handing = (async () => {
      for (let i = 0; await tokenCounts.more(BETWEEN); i++) {
        signal.throwIfAborted();
        const { final, atMs } = await next(i);
        const { pToD, dToP } = final.transfer;
        if (!pToD) return;
        const { prefill = 0, ...stages } = final.stagesMs;
        const { pull = 0 } = foldStages(stages);
        const before = pull + sum(BEFORE_PREFILL.map((stage) => stages[stage] ?? 0));
        const arrivalMs = atMs - final.ttftMs;
        const prefillMs = [arrivalMs + before, arrivalMs + before + prefill] as const;
        const pulled = dToP !== null;
        const { ms, bytes } = pToD;
        handovers.push({
          readMs: ms,
          bytes,
          prefillMs,
          fromMs: pulled ? arrivalMs : prefillMs[1],
          toMs: atMs,
          pulled,
        });
      }
    })();
    const [decoded] = await Promise.all([answers, handing]);
    if (!counts) return;
    const fromMs = Math.max(...decoded.map(({ tokenMs }) => tokenMs[0]!));
    const untilMs = Math.min(...decoded.map(({ tokenMs }) => tokenMs.at(-1)!));
    const stepMs = mean(decoded.map(({ tokenMs }) => msPerToken(tokenMs)));
    const complete = handovers.filter(
      ({ toMs, pulled }, i) => !pulled && i > 0 && handovers[i - 1]!.toMs >= fromMs && toMs <= untilMs,
    );
    this.reads.push(...complete.map(({ readMs, bytes }) => ({ readMs, bytes, stepMs })));
    for (const { tokenMs } of decoded) {
      const together = tokenMs.filter((ms) => ms >= fromMs && ms <= untilMs);
      this.steps.push(...stepGroups(together, handovers));
    }
  }
}

/** Stages of a turn's TTFT before P computes. */
const BEFORE_PREFILL = ['router', 'queue_p', 'lookup_p', 'schedule_p'];

/**
 * Groups the steps of an answer, by the times of its tokens. Groups with a handover that began before the first token
 * or ended after the last one are left out.
 */
function stepGroups(tokenMs: readonly number[], handed: readonly Handover[]): StepGroup[] {
  const [firstMs, lastMs] = [tokenMs[0]!, tokenMs.at(-1)!];
  const cut = ({ fromMs, toMs }: Handover): boolean => fromMs < firstMs || toMs > lastMs;
  const groups: (StepGroup & { last: Handover | null; complete: boolean })[] = [];
  for (const [i, toMs] of tokenMs.entries()) {
    const fromMs = tokenMs[i - 1];
    if (fromMs === undefined || toMs <= fromMs) continue;
    const touched = handed.filter((handover) => handover.fromMs < toMs && handover.toMs > fromMs);
    const prefillMs = sumOf(handed, ({ prefillMs: [from, to] }) =>
      Math.max(0, Math.min(to, toMs) - Math.max(from, fromMs)),
    );
    const before = groups.at(-1);
    const complete = !touched.some(cut);
    const last = touched.at(-1) ?? null;
    // Steps that one handover overlaps form one group, whichever of them lost the time.
    if (before?.last && before.last === touched[0]) {
      before.steps++;
      before.ms += toMs - fromMs;
      before.prefillMs += prefillMs;
      before.handovers += touched.length - 1;
      before.pulls += pullsOf(touched.slice(1));
      before.complete &&= complete;
      before.last = last;
    } else {
      const overlapping = { handovers: touched.length, pulls: pullsOf(touched) };
      groups.push({ steps: 1, ms: toMs - fromMs, prefillMs, ...overlapping, last, complete });
    }
  }
  return groups
    .filter(({ complete }) => complete)
    .map(({ last: _last, complete: _complete, ...steps }) => steps);
}

const pullsOf = (handed: readonly Handover[]): number => handed.filter(({ pulled }) => pulled).length;

interface ReadContention {
  /**
   * Extra time of a READ, apart from its wait for the step that D has begun, which takes half of one on average and is
   * simulated.
   */
  readMs: number;
  /** Time taken from each concurrent step. */
  fromStepsMs: number;
  /** The same where P pulled; null: none was seen. */
  pullFromStepsMs: number | null;
}

/**
 * `aloneMs`: a READ while nothing else runs; `rowMs`: what one more decoding request adds to a step of the D that it
 * was handed to, one of `decodes`. Times in ms.
 */
export function readContention(
  aloneMs: (bytes: number) => number,
  { reads, steps }: { reads: readonly OverlappingRead[]; steps: readonly StepGroup[] },
  { rowMs, decodes }: { rowMs: number; decodes: number },
): ReadContention {
  if (reads.length === 0) return { readMs: 0, fromStepsMs: 0, pullFromStepsMs: null };
  const more = reads.map(({ readMs, bytes, stepMs }) => readMs - aloneMs(bytes) - stepMs / 2);
  const { handoverMs, pullMs } = lostToReads(steps);
  return {
    readMs: Math.max(0, median(more)),
    fromStepsMs: Math.max(0, handoverMs - rowMs / Math.max(1, decodes)),
    pullFromStepsMs: pullMs === null ? null : Math.max(0, pullMs),
  };
}

/**
 * What steps of a D lose to a handover and to a pull, ms, compared with steps that overlap neither prompts nor READs. A
 * turn that P pulls for is handed over too: what it takes beyond a handover is the pull's.
 */
function lostToReads(all: readonly StepGroup[]): { handoverMs: number; pullMs: number | null } {
  const overlapped = all.filter(({ handovers }) => handovers > 0);
  const rest = all.filter(({ handovers }) => handovers === 0);
  const undisturbed = rest.filter(({ prefillMs }) => prefillMs === 0);
  if (overlapped.length === 0 || undisturbed.length === 0) return { handoverMs: 0, pullMs: null };
  const stepMs = mean(undisturbed.map(({ ms }) => ms));
  const withPrompts = rest.filter(({ prefillMs }) => prefillMs > 0);
  const lostMs = ({ steps, ms }: StepGroup) => ms - steps * stepMs;
  const toP =
    sum(withPrompts.map(lostMs)) / Math.max(1e-6, sum(withPrompts.map(({ prefillMs }) => prefillMs)));
  const lostOf = (groups: readonly StepGroup[]) =>
    sum(groups.map((group) => lostMs(group) - group.prefillMs * toP));
  const handoversOf = (groups: readonly StepGroup[]) => sum(groups.map(({ handovers }) => handovers));
  const [pulled, handed] = [
    overlapped.filter(({ pulls }) => pulls > 0),
    overlapped.filter(({ pulls }) => pulls === 0),
  ];
  if (handed.length === 0) return { handoverMs: 0, pullMs: null };
  const handoverMs = lostOf(handed) / handoversOf(handed);
  if (pulled.length === 0) return { handoverMs, pullMs: null };
  const pullsMs = lostOf(pulled) - handoverMs * handoversOf(pulled);
  return { handoverMs, pullMs: pullsMs / sum(pulled.map(({ pulls }) => pulls)) };
}
