/** Computes how much of a workload fits the time budget, from a short measurement and the rounds so far. Pure arithmetic. */
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import { sum, sumOf } from '../../sum.ts';
import type { BenchConversation } from '../../workload/types.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';

/** Fewest rounds for a comparison. */
export const LEAST_ROUNDS = 3;

/** Share of the time that is planned. The rest is a reserve, because estimates come from short measurements. */
const PLANNED_SHARE = 0.85;

/** How much longer than the longest round so far the next one may take. */
const ROUND_SLACK = 1.08;

/** Costs in milliseconds, under the load of all clients. */
export interface Cost {
  /** Fixed cost of a request. */
  turnMs: number;
  prefillMsPerToken: number;
  decodeMsPerToken: number;
}

/** Fits TTFT to the computed tokens by least squares. Decode is the mean TPOT. */
export function fitCost(requests: readonly MeasuredRequest[]): Cost {
  const points = requests.map(({ sample }) => ({
    x: sample.computed_tokens ?? sample.input_num_tokens,
    y: sample.ttft_ms,
  }));
  const mean = (values: readonly number[]): number => sum(values) / Math.max(1, values.length);
  const meanX = mean(points.map(({ x }) => x));
  const meanY = mean(points.map(({ y }) => y));
  const spread = sumOf(points, ({ x }) => (x - meanX) ** 2);
  const along = sumOf(points, ({ x, y }) => (x - meanX) * (y - meanY));
  const slope = spread > 0 ? Math.max(0, along / spread) : meanX > 0 ? meanY / meanX : 0;
  return {
    turnMs: Math.max(0, meanY - slope * meanX),
    prefillMsPerToken: slope,
    decodeMsPerToken: mean(requests.map(({ sample }) => sample.tpot_ms)),
  };
}

/** Milliseconds of one arm's round. */
function predictArmMs(
  conversations: readonly BenchConversation[],
  arm: Arm,
  experiment: Pick<ExperimentPlan, 'name'>,
  cost: Cost,
  numClients: number,
): number {
  let total = 0;
  for (const { turns } of conversations) {
    let history = 0;
    let lastOutput = 0;
    for (const [index, turn] of turns.entries()) {
      const output = turn.outputTokens ?? 0;
      const computed =
        index === 0
          ? turn.inputTokens
          : laterTurnTokens(arm, experiment, history, lastOutput, turn.inputTokens);
      total += cost.turnMs + cost.prefillMsPerToken * computed + cost.decodeMsPerToken * output;
      history += turn.inputTokens + output;
      lastOutput = output;
    }
  }
  return total / Math.min(numClients, conversations.length);
}

/** Estimated prompt tokens to compute in a later turn. */
function laterTurnTokens(
  { mode, threshold, path }: Arm,
  { name }: Pick<ExperimentPlan, 'name'>,
  history: number,
  lastOutput: number,
  input: number,
): number {
  if (path && path.name !== 'recompute') return path.name === 'pd-reuse' ? lastOutput + input : input;
  const pulls = mode === 'bidirectional' && lastOutput >= threshold;
  if (pulls || mode === 'decode-local' || mode === 'monolithic') return input;
  return name === 'prefix-caching' ? lastOutput + input : history + input;
}

export const predictRoundMs = (
  conversations: readonly BenchConversation[],
  experiments: readonly ExperimentPlan[],
  cost: Cost,
  numClients: number,
): number =>
  sum(
    experiments.flatMap((experiment) =>
      experiment.arms.map((arm) => predictArmMs(conversations, arm, experiment, cost, numClients)),
    ),
  );

/**
 * The largest part of the workload of which `rounds` rounds fit: the first of cuts() that fits, or the last. A part takes as
 * long to predict as it is large, so it is found by bisection: no part is predicted to take longer than a larger one.
 */
export function fittingConversations(
  conversations: readonly BenchConversation[],
  predictMs: (some: readonly BenchConversation[]) => number,
  options: { numClients: number; rounds: number; leftMs: number },
): readonly BenchConversation[] {
  const { numClients, rounds, leftMs } = options;
  const parts = [...cuts(conversations, numClients)];
  const partAt = (index: number) => {
    const { count, turns } = parts[index]!;
    return shortened(conversations.slice(0, count), turns);
  };
  const fits = (index: number) => rounds * predictMs(partAt(index)) <= PLANNED_SHARE * leftMs;
  let low = 0;
  // The whole workload first: most often it fits.
  for (let high = fits(0) ? 0 : parts.length - 1; low < high; ) {
    const middle = (low + high) >> 1;
    if (fits(middle)) high = middle;
    else low = middle + 1;
  }
  return partAt(low);
}

/** The published run stopped when the first conversation ended, after this many turns. */
const PUBLISHED_TURNS = 6;

/** Only a second turn can pull. */
const LEAST_TURNS = 2;

/**
 * Ever smaller parts of the workload, down to the smallest useful one: first fewer conversations, as long as each client still
 * has several (with fewer, a small cache would hold them all), then fewer turns, alternating.
 */
function* cuts(
  conversations: readonly BenchConversation[],
  numClients: number,
): Generator<{ count: number; turns: number }> {
  let count = conversations.length;
  let turns = mostTurns(conversations);
  yield { count, turns };
  for (const [fewest, shortest] of [
    [3 * numClients, PUBLISHED_TURNS],
    [2 * numClients, 4],
    [numClients, LEAST_TURNS],
  ] as const) {
    while (count > fewest) {
      count--;
      yield { count, turns };
    }
    while (turns > shortest) yield { count, turns: --turns };
  }
}

/** Turns of the longest conversation. */
export const mostTurns = (conversations: readonly BenchConversation[]): number =>
  conversations.reduce((most, { turns }) => Math.max(most, turns.length), 0);

const shortened = (conversations: readonly BenchConversation[], turns: number): BenchConversation[] =>
  conversations.map((each) => ({ ...each, turns: each.turns.slice(0, turns) }));

/** Whether to run another round, with fewer conversations if LEAST_ROUNDS would not fit otherwise, or to end. */
export function nextRound(state: {
  /** Milliseconds of each round so far. */
  roundsMs: readonly number[];
  leftMs: number;
  conversations: number;
  leastConversations: number;
  rounds: number;
}): { kind: 'end' } | { kind: 'go'; conversations: number } {
  const { roundsMs, leftMs, conversations, leastConversations, rounds } = state;
  const expected = Math.max(...roundsMs) * ROUND_SLACK;
  const missing = Math.min(LEAST_ROUNDS, rounds) - roundsMs.length;
  if (missing <= 0) return expected <= leftMs ? { kind: 'go', conversations } : { kind: 'end' };
  const share = leftMs / (missing * expected);
  if (share >= 1) return { kind: 'go', conversations };
  const fewer = Math.floor(conversations * share);
  if (fewer >= leastConversations) return { kind: 'go', conversations: fewer };
  return expected <= leftMs ? { kind: 'go', conversations } : { kind: 'end' };
}
