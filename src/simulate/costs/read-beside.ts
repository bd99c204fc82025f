/**
 * Measures READs between engines while others compute: how much longer they take, and how much they delay concurrent
 * steps.
 */
import { mean, sum } from 'simple-statistics';
import { pairPool } from '../../fleet/options.ts';
import type { Cluster } from '../../fleet/types.ts';
import { foldStages } from '../../measure/spans/stages.ts';
import { median } from '../../measure/statistics.ts';
import type { EngineClient } from '../../router/engine-client.ts';
import { type Asker, msPerToken, TokensTold, type TurnAsked } from './asker.ts';
import { CONTEXT } from './beside.ts';

/** Prompts that are handed over while D decodes a long answer, tokens. */
const READ_TOKENS = [48, 192];
const LONG_ANSWER = 96;
/** Tokens of each D between two handovers: the steps in between are the baseline for those that a handover overlaps. */
const BETWEEN = 4;
/** Conversations that continue, for P to pull what D has of them; fewer if there is no room. */
const GO_ON = 6;
/** New tokens of such a turn. */
const NEW_TOKENS = 4;

/** The READ of a handover while every D decoded. */
export interface ReadBeside {
  readMs: number;
  bytes: number;
  /** Mean time between two tokens of a D at that time. */
  stepMs: number;
}

/** Consecutive decode steps of one D: those that handovers overlap, or a single one that none does. */
export interface StepsBeside {
  steps: number;
  ms: number;
  /** Milliseconds of them in which P computed prompts. */
  prefillMs: number;
  handOvers: number;
  /** Handovers before which P had pulled. */
  pulls: number;
}

/**
 * READs of a turn, from the first one to D's token, and when P computed the prompt: before them, or after it had
 * pulled. Times in ms.
 */
interface HandedOver {
  prefillMs: readonly [from: number, to: number];
  fromMs: number;
  toMs: number;
  pulled: boolean;
}

interface ReadMeterDeps {
  cluster: Cluster;
  ask: Asker;
  signal: AbortSignal;
  /** Tokens that a request may have. */
  room: number;
}

export class ReadBesideMeter {
  readonly reads: ReadBeside[] = [];
  readonly steps: StepsBeside[] = [];
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
    const { ask, cluster, room } = this.#deps;
    const tokens = READ_TOKENS.filter(
      (each) =>
        each < room &&
        [each, each + 1 + NEW_TOKENS].every((prompt) => pairPool(prompt, cluster.settings) !== null),
    );
    const answer = Math.min(LONG_ANSWER, room - CONTEXT.near - 1);
    if (tokens.length === 0 || answer < 2) return;
    const goOn = this.#rounds++ % 2 === 0;
    await cluster.configure({ mode: goOn ? 'bidirectional' : 'unidirectional' });
    const begun: TurnAsked[] = [];
    const next = (i: number): Promise<TurnAsked> => {
      const before = begun[i];
      return before
        ? ask.goOn(cluster, before, NEW_TOKENS)
        : ask.cluster(cluster, tokens[i % tokens.length]!);
    };
    try {
      if (goOn) await this.#begin(begun, tokens, room - CONTEXT.near - answer);
      await this.#handOver(next, answer, counts);
    } finally {
      for (const { conversationId } of begun) await cluster.endConversation(conversationId);
    }
  }

  /** Serves the first turns of conversations whose KV D keeps, and no P. */
  async #begin(begun: TurnAsked[], tokens: readonly number[], room: number): Promise<void> {
    const { ask, cluster, signal } = this.#deps;
    for (let left = room; begun.length < GO_ON; ) {
      const length = tokens[begun.length % tokens.length]!;
      left -= length + NEW_TOKENS + 2 * cluster.settings.blockSize;
      if (left < 0) break;
      signal.throwIfAborted();
      const turn = await ask.begin(cluster, length);
      begun.push(turn);
      for (const engine of cluster.engines)
        if (engine.role === 'prefill') await engine.forgetPrefix(turn.promptTokenIds, null, 0);
    }
  }

  async #handOver(next: (i: number) => Promise<TurnAsked>, answer: number, counts: boolean): Promise<void> {
    const { ask, signal } = this.#deps;
    const told = new TokensTold(this.decodes.length);
    const answers = Promise.all(
      this.decodes.map((engine, i) =>
        ask.engine(engine, CONTEXT.near, answer, [], (count) => told.tell(i, count)),
      ),
    ).finally(() => told.end());
    const seen: (HandedOver & { readMs: number; bytes: number })[] = [];
    const handOvers = (async () => {
      for (let i = 0; await told.more(BETWEEN); i++) {
        signal.throwIfAborted();
        const { final, atMs } = await next(i);
        const { pToD, dToP } = final.transfer;
        if (!pToD) return;
        const { prefill = 0, ...stages } = final.stagesMs;
        const { pull = 0 } = foldStages(stages);
        const before = pull + sum(BEFORE_PREFILL.map((stage) => stages[stage] ?? 0));
        const askedMs = atMs - final.ttftMs;
        const prefillMs = [askedMs + before, askedMs + before + prefill] as const;
        const pulled = dToP !== null;
        const { ms, bytes } = pToD;
        seen.push({
          readMs: ms,
          bytes,
          prefillMs,
          fromMs: pulled ? askedMs : prefillMs[1],
          toMs: atMs,
          pulled,
        });
      }
    })();
    const [decoded] = await Promise.all([answers, handOvers]);
    if (!counts) return;
    const fromMs = Math.max(...decoded.map(({ tokenMs }) => tokenMs[0]!));
    const untilMs = Math.min(...decoded.map(({ tokenMs }) => tokenMs.at(-1)!));
    const stepMs = mean(decoded.map(({ tokenMs }) => msPerToken(tokenMs)));
    const whole = seen.filter(
      ({ toMs, pulled }, i) => !pulled && i > 0 && seen[i - 1]!.toMs >= fromMs && toMs <= untilMs,
    );
    this.reads.push(...whole.map(({ readMs, bytes }) => ({ readMs, bytes, stepMs })));
    for (const { tokenMs } of decoded) {
      const together = tokenMs.filter((ms) => ms >= fromMs && ms <= untilMs);
      this.steps.push(...stepsBeside(together, seen));
    }
  }
}

/** Stages of a turn's TTFT before P computes. */
const BEFORE_PREFILL = ['router', 'queue_p', 'lookup_p', 'schedule_p'];

/**
 * Groups the steps of an answer, by the times of its tokens. Groups with a handover that began before the first token
 * or ended after the last one are left out.
 */
function stepsBeside(tokenMs: readonly number[], handed: readonly HandedOver[]): StepsBeside[] {
  const [firstMs, lastMs] = [tokenMs[0]!, tokenMs.at(-1)!];
  const cut = ({ fromMs, toMs }: HandedOver): boolean => fromMs < firstMs || toMs > lastMs;
  const groups: (StepsBeside & { last: HandedOver | null; whole: boolean })[] = [];
  for (const [i, toMs] of tokenMs.entries()) {
    const fromMs = tokenMs[i - 1];
    if (fromMs === undefined || toMs <= fromMs) continue;
    const touched = handed.filter((each) => each.fromMs < toMs && each.toMs > fromMs);
    const prefillMs = handed.reduce((ms, { prefillMs: [from, to] }) => {
      return ms + Math.max(0, Math.min(to, toMs) - Math.max(from, fromMs));
    }, 0);
    const before = groups.at(-1);
    const whole = !touched.some(cut);
    const last = touched.at(-1) ?? null;
    // Steps that one handover overlaps form one group, whichever of them lost the time.
    if (before?.last && before.last === touched[0]) {
      before.steps++;
      before.ms += toMs - fromMs;
      before.prefillMs += prefillMs;
      before.handOvers += touched.length - 1;
      before.pulls += pullsOf(touched.slice(1));
      before.whole &&= whole;
      before.last = last;
    } else {
      const came = { handOvers: touched.length, pulls: pullsOf(touched) };
      groups.push({ steps: 1, ms: toMs - fromMs, prefillMs, ...came, last, whole });
    }
  }
  return groups.filter(({ whole }) => whole).map(({ last: _last, whole: _whole, ...steps }) => steps);
}

const pullsOf = (handed: readonly HandedOver[]): number => handed.filter(({ pulled }) => pulled).length;

interface BesideRead {
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
export function besideRead(
  aloneMs: (bytes: number) => number,
  { reads, steps }: { reads: readonly ReadBeside[]; steps: readonly StepsBeside[] },
  { rowMs, decodes }: { rowMs: number; decodes: number },
): BesideRead {
  if (reads.length === 0) return { readMs: 0, fromStepsMs: 0, pullFromStepsMs: null };
  const more = reads.map(({ readMs, bytes, stepMs }) => readMs - aloneMs(bytes) - stepMs / 2);
  const { handOverMs, pullMs } = lostToReads(steps);
  return {
    readMs: Math.max(0, median(more)),
    fromStepsMs: Math.max(0, handOverMs - rowMs / Math.max(1, decodes)),
    pullFromStepsMs: pullMs === null ? null : Math.max(0, pullMs),
  };
}

/**
 * What steps of a D lose to a handover and to a pull, ms, compared with steps that overlap neither prompts nor READs. A
 * turn that P pulls for is handed over too: what it takes beyond a handover is the pull's.
 */
function lostToReads(all: readonly StepsBeside[]): { handOverMs: number; pullMs: number | null } {
  const between = all.filter(({ handOvers }) => handOvers > 0);
  const others = all.filter(({ handOvers }) => handOvers === 0);
  const free = others.filter(({ prefillMs }) => prefillMs === 0);
  if (between.length === 0 || free.length === 0) return { handOverMs: 0, pullMs: null };
  const stepMs = mean(free.map(({ ms }) => ms));
  const besideP = others.filter(({ prefillMs }) => prefillMs > 0);
  const lostMs = ({ steps, ms }: StepsBeside) => ms - steps * stepMs;
  const toP = sum(besideP.map(lostMs)) / Math.max(1e-6, sum(besideP.map(({ prefillMs }) => prefillMs)));
  const lostOf = (some: readonly StepsBeside[]) =>
    sum(some.map((each) => lostMs(each) - each.prefillMs * toP));
  const handOversOf = (some: readonly StepsBeside[]) => sum(some.map(({ handOvers }) => handOvers));
  const [pulled, handed] = [
    between.filter(({ pulls }) => pulls > 0),
    between.filter(({ pulls }) => pulls === 0),
  ];
  if (handed.length === 0) return { handOverMs: 0, pullMs: null };
  const handOverMs = lostOf(handed) / handOversOf(handed);
  if (pulled.length === 0) return { handOverMs, pullMs: null };
  const pullsMs = lostOf(pulled) - handOverMs * handOversOf(pulled);
  return { handOverMs, pullMs: pullsMs / sum(pulled.map(({ pulls }) => pulls)) };
}
