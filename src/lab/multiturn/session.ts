/**
 * Runs a benchmark from the first estimate to the last round that its budget allows. A round that overruns the budget is
 * aborted and not counted. If interrupted, keeps what was served.
 */
import type { Cluster } from '../../fleet/types.ts';
import { plural } from '../../measure/format.ts';
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import { sumOf } from '../../sum.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { Budget } from './budget.ts';
import { requestsOf } from './clients.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';
import {
  type Cost,
  fitCost,
  fittingConversations,
  LEAST_ROUNDS,
  mostTurns,
  nextRound,
  predictRoundMs,
} from './plan.ts';
import { type ArmRound, type RoundWatcher, runArm, runRound, type ServeOptions } from './rounds.ts';
import { ServedRounds } from './served-rounds.ts';
import type { BenchTarget } from './target.ts';

export interface SessionOptions extends ServeOptions {
  /** null: as many as fit the budget; without a budget, LEAST_ROUNDS. */
  rounds: number | null;
  /** When the budget ends, by `now`; null: no budget. */
  deadlineMs: number | null;
  signal: AbortSignal;
  /** The conversations, shortened as the settings require. */
  asServed(conversations: readonly BenchConversation[]): readonly BenchConversation[];
  /** The experiments, with pools for these conversations. */
  fitPools(conversations: readonly BenchConversation[]): readonly ExperimentPlan[];
}

export interface SessionResult {
  experiments: readonly ExperimentPlan[];
  conversations: readonly BenchConversation[];
  rounds: ReadonlyMap<Arm, readonly ArmRound[]>;
  /** null: all was served. */
  incompleteReason: string | null;
  /** What was cut and other remarks, one sentence or more each. */
  notes: string[];
}

export interface SessionWatcher extends RoundWatcher {
  /** A trial begins, to find out how much fits. */
  trying(conversations: number, turns: number): void;
  tried(found: TrialFindings): void;
  /** `roundMs`: expected milliseconds of a round; null: not known yet. */
  planned(rounds: number, roundMs: number | null): void;
}

export interface TrialFindings {
  tookMs: number;
  cost: Cost;
  /** Conversations that fit, and all conversations. */
  fitting: number;
  all: number;
  /** Expected milliseconds of a round with the conversations that fit. */
  roundMs: number;
}

/** Turns of each conversation in the trial. */
const TRIAL_TURNS = 2;

export async function runSession(
  cluster: Cluster,
  target: BenchTarget,
  planned: readonly ExperimentPlan[],
  all: readonly BenchConversation[],
  options: SessionOptions,
  watcher: SessionWatcher,
): Promise<SessionResult> {
  const { now } = options;
  const budget = new Budget(options.deadlineMs, now);
  const served = new ServedRounds(
    planned.flatMap(({ arms }) => arms),
    watcher,
  );
  const notes: string[] = [];
  const signal = AbortSignal.any([options.signal, budget.spent]);
  const roundsMs: number[] = [];
  const mostRounds = options.rounds ?? (budget.isLimited ? Number.POSITIVE_INFINITY : LEAST_ROUNDS);
  const leastRounds = Math.min(LEAST_ROUNDS, mostRounds);
  let conversations = all;
  let experiments = planned;
  const result = (incompleteReason: string | null): SessionResult => ({
    experiments,
    conversations,
    rounds: withoutOthers(served.comparable(), conversations),
    incompleteReason,
    notes,
  });
  const ended = (): SessionResult => {
    const enough = !budget.isLimited || roundsMs.length >= leastRounds;
    return result(enough ? null : outOfTime(roundsMs.length, leastRounds));
  };
  try {
    conversations = await trial(cluster, target, planned, all, { ...options, signal, budget }, watcher);
    notes.push(...cutNotes(all, conversations, leastRounds));
    experiments = options.fitPools(conversations);
    if (experiments.some(({ roomy }) => roomy)) notes.push(NOT_TIGHT);
    while (roundsMs.length < mostRounds) {
      let some = conversations;
      if (roundsMs.length > 0) {
        const next = nextRound({
          roundsMs,
          leftMs: budget.leftMs(),
          conversations: conversations.length,
          leastConversations: options.numClients,
          rounds: mostRounds,
        });
        if (next.kind === 'end') break;
        some = conversations.slice(0, next.conversations);
      }
      const begun = now();
      const round = roundsMs.length + 1;
      await runRound(cluster, target, experiments, some, { ...options, signal, round }, served);
      // Only after the round: if it is aborted, earlier rounds still count in full.
      if (some.length < conversations.length) {
        notes.push(
          `From ${conversations.length} to ${plural(some.length, 'conversation')} after round ${roundsMs.length}, so that ${leastRounds} rounds fit. The dropped conversations are not counted; rates and held blocks are from the later rounds.`,
        );
        conversations = some;
        served.cutBefore(round);
      }
      roundsMs.push(now() - begun);
      const expected = Math.max(...roundsMs);
      const completed = roundsMs.length;
      const fitting = completed + Math.floor(budget.leftMs() / expected);
      // Conversations are dropped before rounds, until the fewest rounds fit.
      const rounds = Math.min(mostRounds, Math.max(fitting, leastRounds));
      watcher.planned(rounds, rounds > fitting ? budget.leftMs() / (rounds - completed) : expected);
    }
    return ended();
  } catch (error) {
    if (options.signal.aborted) return result('interrupted');
    if (!budget.spent.aborted) throw error;
    const completed = roundsMs.length;
    notes.push(
      `Round ${completed + 1} was aborted when the budget ended${completed > 0 ? '; it is not counted' : ''}.`,
    );
    return ended();
  } finally {
    budget.close();
    await target.settled();
  }
}

const outOfTime = (rounds: number, required: number): string =>
  `the budget was enough for ${plural(rounds, 'whole round')} of ${required}: give a larger --budget, or fewer requests (--max-num-requests)`;

/** Warms up transfers and steps and, with a budget, chooses how many conversations fit. */
async function trial(
  cluster: Cluster,
  target: BenchTarget,
  experiments: readonly ExperimentPlan[],
  all: readonly BenchConversation[],
  options: SessionOptions & { budget: Budget },
  watcher: SessionWatcher,
): Promise<readonly BenchConversation[]> {
  const { numClients, now, budget } = options;
  const few = all
    .slice(0, Math.max(numClients, 1))
    .map(({ id, turns }) => ({ id, turns: turns.slice(0, TRIAL_TURNS) }));
  watcher.trying(few.length, TRIAL_TURNS);
  const begun = now();
  const [first] = experiments;
  const settings = {
    ...options,
    round: 0,
    warmupStep: false,
    earlyStop: false,
    requestRate: 0,
    maxRequests: null,
  };
  const served: ArmRound[] = [];
  const ways = first!.arms.filter(({ path }) => path);
  const usual = (['unidirectional', 'bidirectional'] as const).map((mode) => ({ mode }));
  for (const way of ways.length > 0 ? ways : usual) {
    const arm = { ...way, threshold: 1 };
    const roomy = { ...first!, prefixCaching: false };
    served.push(await runArm(cluster, target, roomy, arm, few, { ...settings, onRequest: () => {} }));
  }
  const cost = fitCost(served.flatMap(({ requests }) => requests));
  const rounds = Math.min(LEAST_ROUNDS, options.rounds ?? LEAST_ROUNDS);
  const predictMs = (some: readonly BenchConversation[]): number => {
    const served = options.asServed(some);
    const turns = sumOf(served, (each) => each.turns.length);
    const gapMs = options.requestRate > 0 ? 1000 / options.requestRate : 0;
    const spaced = { ...cost, turnMs: cost.turnMs + gapMs };
    const clients = Math.min(numClients, options.maxActive);
    // Warm-up turns take as long as others.
    const numRequests = requestsOf(some, { ...options, warmupStep: false });
    return (predictRoundMs(served, experiments, spaced, clients) * numRequests) / turns;
  };
  const chosen = budget.isLimited
    ? fittingConversations(all, predictMs, { numClients, rounds, leftMs: budget.leftMs() })
    : all;
  const roundMs = predictMs(chosen);
  watcher.tried({ tookMs: now() - begun, cost, fitting: chosen.length, all: all.length, roundMs });
  const fitting = budget.isLimited ? Math.floor(budget.leftMs() / roundMs) : rounds;
  watcher.planned(options.rounds ?? Math.max(rounds, fitting), roundMs);
  return chosen;
}

const NOT_TIGHT =
  'There are no more active conversations than clients, so the smallest usable pool holds them all and nothing is evicted. To measure eviction, give --max-active-conversations above --num-clients, and a --budget that is enough for that many.';

function cutNotes(
  all: readonly BenchConversation[],
  chosen: readonly BenchConversation[],
  rounds: number,
): string[] {
  const why = `${plural(rounds, 'round')} with more would not fit the budget`;
  const some = all.slice(0, chosen.length);
  if (mostTurns(chosen) < mostTurns(some))
    return [
      `Cut: ${chosen.length} of ${plural(all.length, 'conversation')}, and ${mostTurns(chosen)} turns of up to ${mostTurns(some)}: ${why}.`,
    ];
  if (chosen.length < all.length)
    return [`Cut: ${chosen.length} of ${plural(all.length, 'conversation')}: ${why}.`];
  return [];
}

/** Removes the requests of conversations that were dropped in later rounds. */
function withoutOthers(
  served: ReadonlyMap<Arm, readonly ArmRound[]>,
  conversations: readonly BenchConversation[],
): Map<Arm, readonly ArmRound[]> {
  const ids = new Set(conversations.map(({ id }) => id));
  const among = ({ sample }: MeasuredRequest): boolean => ids.has(sample.conversation_id);
  return new Map(
    [...served].map(([arm, rounds]) => [
      arm,
      rounds.map((each) => ({ ...each, requests: each.requests.filter(among) })),
    ]),
  );
}
