/** From the rounds of all arms to a report's experiments. */

import { percentages } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { type BootstrapOptions, comparePair, compareTokens } from '../../measure/bench-comparison.ts';
import type { BenchMode, BenchPair, Experiment } from '../../measure/bench-report.ts';
import { type HeldBlocks, type ModeFacts, summariseMode } from '../../measure/bench-summary.ts';
import { Random } from '../../workload/random.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';
import type { ArmRound } from './rounds.ts';

export const RESAMPLES = 1000;
const CONFIDENCE = 0.95;

/** Arms of one experiment with what they served; arms without a single answer are left out. */
export function summariseExperiment(
  plan: ExperimentPlan,
  rounds: ReadonlyMap<Arm, readonly ArmRound[]>,
  config: RunConfig,
  blockBytes: number,
): Experiment {
  const served = plan.arms.map((arm) => ({ arm, rounds: rounds.get(arm) ?? [] }));
  const modes = served.flatMap(({ arm, rounds }): [string, BenchMode][] => {
    const mode = summariseMode(
      rounds.flatMap(({ requests }) => requests),
      armFacts(arm, rounds, config, blockBytes),
    );
    return mode ? [[arm.key, mode]] : [];
  });
  const answered = served.map(({ arm, rounds }) => ({
    mode: arm.key,
    requests: rounds.flatMap(({ requests }) => requests),
  }));
  const reference = answered.find(({ mode }) => mode === 'unidirectional') ?? answered[0];
  const others = answered.filter((each) => each !== reference);
  const comparisons = others.flatMap((other): [string, BenchPair][] => {
    const pair = reference && comparePair(reference, other, bootstrap(config.seed));
    return pair ? [[other.mode, pair]] : [];
  });
  const main = comparisons.find(([key]) => key === 'bidirectional') ?? comparisons[0];
  return {
    title: plan.title,
    prefix_caching: plan.prefixCaching,
    p_blocks: plan.pBlocks,
    d_blocks: plan.dBlocks,
    rounds: Math.min(...served.map(({ rounds }) => rounds.length)),
    modes: Object.fromEntries(modes),
    comparison: main ? { ...main[1], ...compareTokens(answered) } : null,
    comparisons: Object.fromEntries(comparisons),
    published: plan.published && { source: plan.published.source, ttft_ms: { ...plan.published.ttft_ms } },
  };
}

function bootstrap(seed: number): BootstrapOptions {
  const random = new Random(seed);
  return { resamples: RESAMPLES, confidence: CONFIDENCE, random: () => random.float(), seed };
}

function armFacts(arm: Arm, rounds: readonly ArmRound[], config: RunConfig, blockBytes: number): ModeFacts {
  const errors = new Map<string, number>();
  for (const round of rounds)
    for (const [message, count] of round.errors) errors.set(message, (errors.get(message) ?? 0) + count);
  const counters = rounds.flatMap((round) => (round.counters ? [round.counters] : []));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return {
    mode: arm.mode,
    label: arm.label,
    threshold: arm.threshold,
    runtimeMs: sum(rounds.map(({ runtimeMs }) => runtimeMs)),
    errors,
    blockBytes,
    heldForP: sumHeld(counters.map(({ heldForP }) => heldForP)),
    heldForD: sumHeld(counters.map(({ heldForD }) => heldForD)),
    preemptions: sum(counters.map(({ preemptions }) => preemptions)),
    firstUseCompilations: sum(counters.map(({ firstUseCompilations }) => firstUseCompilations)),
    warmupPercentages: percentages(config.warmupPercentages)!,
  };
}

/** Sums over rounds; the peak is the highest of one. */
function sumHeld(uses: readonly (HeldBlocks | null)[]): HeldBlocks | null {
  const known = uses.filter((use) => use !== null);
  if (known.length === 0) return null;
  return {
    blockMs: known.reduce((total, use) => total + use.blockMs, 0),
    peakBlocks: Math.max(...known.map((use) => use.peakBlocks)),
    overMs: known.reduce((total, use) => total + use.overMs, 0),
  };
}
