/** Summarises the rounds of all arms as a report's experiments. */
import { percentages } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import { eachNoPull } from '../../engine/counters.ts';
import type { Cluster } from '../../fleet/types.ts';
import { plural } from '../../measure/format.ts';
import type { BenchMode } from '../../measure/schemas/bench-mode-schema.ts';
import type { BenchAudit, BenchPair, Experiment } from '../../measure/schemas/bench-report.ts';
import { auditTotals } from '../../measure/summaries/audit.ts';
import {
  type BootstrapOptions,
  comparePair,
  compareTokens,
  ratios,
} from '../../measure/summaries/bench-comparison.ts';
import { movingOf } from '../../measure/summaries/bench-moving.ts';
import {
  byLength,
  laterTtfts,
  medianOf,
  regretOf,
  summarisePath,
} from '../../measure/summaries/bench-paths.ts';
import { routingOf } from '../../measure/summaries/bench-routing.ts';
import { type HeldBlocks, type ModeFacts, summariseMode } from '../../measure/summaries/bench-summary.ts';
import { sum, sumOf } from '../../sum.ts';
import { Random } from '../../workload/random.ts';
import { windowCosts } from '../windows.ts';
import { mergeErrors } from './clients.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';
import type { ArmCounters, ArmRound } from './rounds.ts';

const RESAMPLES = 1000;
const CONFIDENCE = 0.95;

/** Summarises one experiment. Arms without any answer are omitted. */
export function summariseExperiment(
  plan: ExperimentPlan,
  rounds: ReadonlyMap<Arm, readonly ArmRound[]>,
  config: RunConfig,
  blockBytes: number,
  engines: Cluster['info']['engines'] = [],
): Experiment {
  const all = plan.arms.map((arm) => ({ arm, rounds: rounds.get(arm) ?? [] }));
  const served = all.filter(({ arm }) => !arm.audited);
  const audited = all.find(({ arm }) => arm.audited);
  const modes = served.flatMap(({ arm, rounds }): [string, BenchMode][] => {
    const mode = summariseArm(arm, rounds, config, blockBytes, engines);
    return mode ? [[arm.key, mode]] : [];
  });
  const answered = requestsOf(served);
  const reference = answered.find(({ mode }) => mode === 'unidirectional') ?? answered[0];
  const others = answered.filter((each) => each !== reference);
  const comparisons = others.flatMap((other): [string, BenchPair][] => {
    const pair = reference && comparePair(reference, other, bootstrap(config.seed));
    return pair ? [[other.mode, pair]] : [];
  });
  const routed = plan.arms.some(({ routing }) => routing);
  const moving =
    routed &&
    movingOf(
      answered.map(({ requests }) => requests),
      (pairs) =>
        ratios(
          pairs.map((pair) => [pair]),
          bootstrap(config.seed),
        ).mean,
    );
  const main = comparisons.find(([key]) => key === 'bidirectional') ?? comparisons[0];
  // The published figures compare pulling with not pulling.
  const { published } =
    reference?.mode === 'unidirectional' && main?.[0] === 'bidirectional' ? plan : { published: null };
  return {
    title: plan.title,
    prefix_caching: plan.prefixCaching,
    p_blocks: plan.pBlocks,
    d_blocks: plan.dBlocks,
    rounds: Math.min(...served.map(({ rounds }) => rounds.length)),
    modes: Object.fromEntries(modes),
    comparison: main ? { ...main[1], ...compareTokens(requestsOf(all)) } : null,
    comparisons: Object.fromEntries(comparisons),
    ...(moving && { moving }),
    ...(plan.link !== undefined && { link: plan.link?.name ?? null }),
    ...(plan.arms.some(({ path }) => path) && {
      by_length: byLength(answered, bootstrap(config.seed)),
      regret: regretOf(answered),
    }),
    ...windowsOf(served, Object.fromEntries(modes)),
    ...(audited && { audit: auditOf(audited.rounds) }),
    published: published && { source: published.source, ttft_ms: { ...published.ttft_ms } },
  };
}

/** null: the arm has no answer. */
function summariseArm(
  arm: Arm,
  rounds: readonly ArmRound[],
  config: RunConfig,
  blockBytes: number,
  engines: Cluster['info']['engines'],
): BenchMode | null {
  const requests = rounds.flatMap((round) => round.requests);
  const facts = armFacts(arm, rounds, config, blockBytes);
  const mode = summariseMode(requests, facts);
  if (!mode) return null;
  if (arm.path) return { ...mode, ...pathOf(arm.path.name, rounds, facts, config.seed) };
  if (!arm.routing) return mode;
  const idsOf = (role: string) => engines.flatMap((each) => (each.role === role ? [each.engineId] : []));
  const routing = routingOf(requests, {
    policy: arm.routing.name,
    prefill: idsOf('prefill'),
    decode: idsOf('decode'),
    sloTtftMs: config.sloTtft,
    sloTpotMs: config.sloTpot,
    failed: failures(rounds),
    runtimeMs: facts.runtimeMs,
    cutRounds: facts.cutRounds,
  });
  return { ...mode, routing };
}

/** A sentence about the first arm of which every request failed, and which is therefore in no table; null: none. */
export function unansweredArm(
  plans: readonly ExperimentPlan[],
  rounds: ReadonlyMap<Arm, readonly ArmRound[]>,
): string | null {
  for (const { title, arms } of plans)
    for (const arm of arms) {
      const served = rounds.get(arm) ?? [];
      const [failure] = mergeErrors(served);
      if (!failure || served.some(({ requests }) => requests.length > 0)) continue;
      const [message, times] = failure;
      return `${title}, ${arm.label}: no request was answered; ${plural(times, 'time')}: ${message}`;
    }
  return null;
}

/** What a path moved and held, and its median TTFT for turns with something to reuse. */
function pathOf(
  name: string,
  rounds: readonly ArmRound[],
  { blockBytes, heldForP, heldForD }: ModeFacts,
  seed: number,
): Pick<BenchMode, 'path' | 'ttft_median_ms'> {
  const requests = rounds.flatMap((round) => round.requests);
  const later = [...laterTtfts(requests).values()];
  return {
    path: summarisePath({
      ...{ name, blockBytes: blockBytes! },
      requests: uncut(rounds).flatMap((round) => round.requests),
      carried: uncut(rounds).flatMap(({ carried }) => carried ?? []),
      heldForPMs: heldForP?.blockMs ?? 0,
      heldForDMs: heldForD?.blockMs ?? 0,
    }),
    ...(later.length > 0 && { ttft_median_ms: medianOf(later, bootstrap(seed)) }),
  };
}

/** Empty unless a mode served the same requests with windows and with all KV kept. */
function windowsOf(
  served: readonly { arm: Arm; rounds: readonly ArmRound[] }[],
  modes: Readonly<Record<string, BenchMode>>,
): Pick<Experiment, 'windows'> {
  const allFull = served.find(({ arm }) => arm.allFullKv);
  const windowed = served.find(({ arm }) => arm.allFullKv === false && arm.mode === allFull?.arm.mode);
  const [costs, costsOfAll] = [windowed, allFull].map((side) => side && modes[side.arm.key]);
  if (!windowed || !allFull || !costs || !costsOfAll || costs.requests !== costsOfAll.requests) return {};
  return {
    windows: {
      mode: windowed.arm.label,
      windowed: windowCosts(costs),
      all_full: windowCosts(costsOfAll),
      tokens_identical: compareTokens(requestsOf([windowed, allFull])).tokens_identical,
    },
  };
}

const requestsOf = (arms: readonly { arm: Arm; rounds: readonly ArmRound[] }[]) =>
  arms.map(({ arm, rounds }) => ({ mode: arm.key, requests: rounds.flatMap(({ requests }) => requests) }));

function auditOf(rounds: readonly ArmRound[]): BenchAudit {
  const requests = rounds.flatMap((round) => round.requests);
  const turns = requests.flatMap(({ audit, sample: { round, conversation_id, turn } }) =>
    audit ? [{ round, conversation_id, turn, ...audit }] : [],
  );
  const totals = auditTotals(turns);
  return {
    requests: requests.length,
    failed_requests: failures(rounds),
    turns,
    slower_choices: totals.slowerChoices,
    regret_ms: totals.regretMs,
    better_ttft_ms: totals.betterTtftMs,
  };
}

const failures = (rounds: readonly ArmRound[]): number =>
  sum(rounds.flatMap(({ errors }) => [...errors.values()]));

function bootstrap(seed: number): BootstrapOptions {
  const random = new Random(seed);
  return { resamples: RESAMPLES, confidence: CONFIDENCE, random: () => random.float(), seed };
}

/** Rates and engine counters come only from rounds that served exactly the reported conversations. */
function armFacts(arm: Arm, rounds: readonly ArmRound[], config: RunConfig, blockBytes: number): ModeFacts {
  const timed = uncut(rounds);
  const counters = timed.flatMap((round) => (round.counters ? [round.counters] : []));
  const stores = counters.flatMap(({ store }) => store ?? []);
  return {
    mode: arm.mode,
    label: arm.label,
    threshold: arm.threshold,
    runtimeMs: sumOf(timed, ({ runtimeMs }) => runtimeMs),
    cutRounds: new Set(rounds.flatMap(({ round, cut }) => (cut ? [round] : []))),
    errors: mergeErrors(rounds),
    blockBytes,
    heldForP: sumHeld(counters.map(({ heldForP }) => heldForP)),
    heldForD: sumHeld(counters.map(({ heldForD }) => heldForD)),
    peakKvBytes: counters.length > 0 ? highest(counters.map((each) => each.peakKvBytes)) : null,
    store:
      stores.length > 0
        ? {
            bytes_from_store: sumOf(stores, ({ loadedBytes }) => loadedBytes),
            bytes_to_store: sumOf(stores, ({ savedBytes }) => savedBytes),
            two_hop_bytes: sumOf(stores, ({ twoHopBytes }) => twoHopBytes),
          }
        : null,
    preemptions: sumOf(counters, ({ preemptions }) => preemptions),
    notPulled: {
      holdsDropped: {
        for_p: sumOf(counters, ({ holdsDropped }) => holdsDropped.forP),
        for_d: sumOf(counters, ({ holdsDropped }) => holdsDropped.forD),
      },
      noPulls: eachNoPull((by) => sumOf(counters, ({ noPulls }) => noPulls[by])),
    },
    firstUseCompilations: sumOf(rounds, ({ counters }) => counters?.firstUseCompilations ?? 0),
    warmupPercentages: percentages(config.warmupPercentages)!,
  };
}

const uncut = (rounds: readonly ArmRound[]): readonly ArmRound[] => rounds.filter(({ cut }) => !cut);

const highest = (peaks: readonly ArmCounters['peakKvBytes'][]): ArmCounters['peakKvBytes'] => ({
  prefill: Math.max(...peaks.map(({ prefill }) => prefill)),
  decode: Math.max(...peaks.map(({ decode }) => decode)),
});

/** Sums over rounds, except the peak, which is the highest of any round. */
function sumHeld(uses: readonly (HeldBlocks | null)[]): HeldBlocks | null {
  const known = uses.filter((use) => use !== null);
  if (known.length === 0) return null;
  return {
    blockMs: sumOf(known, (use) => use.blockMs),
    peakBlocks: Math.max(...known.map((use) => use.peakBlocks)),
    overMs: sumOf(known, (use) => use.overMs),
  };
}
