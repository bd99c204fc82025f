/** Builds the plan report from the results of a search. */
import { shareOf } from '../../config/bench-schema.ts';
import type { RunConfig } from '../../config/run.ts';
import type { StoreOptions } from '../../fleet/types.ts';
import type { PlanReport, PlanRow } from '../../measure/schemas/plan-report.ts';
import { storeTimes } from '../../simulate/costs/tiers.ts';
import type { SimulationCosts } from '../../simulate/costs/types.ts';
import { type Candidate, enginesOf, groupsOf } from '../../simulate/plan/candidate.ts';
import type { Goodput } from '../../simulate/plan/goodput.ts';
import type { Round } from '../../simulate/plan/halving.ts';
import type { Outcome } from '../../simulate/plan/outcome.ts';
import type { Search, Space } from '../../simulate/plan/space.ts';
import { movingOf } from '../simulate/output.ts';
import type { PlanWorkload } from './workload.ts';

/** The report fields that the search fills in. */
export type Found = Pick<
  PlanReport,
  | 'goal'
  | 'chosen'
  | 'goodput'
  | 'closest'
  | 'idle'
  | 'not_told_apart'
  | 'one_fewer'
  | 'front'
  | 'fleet'
  | 'commands'
>;

/** `row`: the one that the answer is about; null: there is none. */
export function planHead(
  config: RunConfig,
  costs: SimulationCosts,
  { source, scale, load, notes, sampleRate, planned: { options } }: PlanWorkload,
  { samples, space }: Search,
  version: string,
  row: PlanRow | null,
): Omit<PlanReport, keyof Found | 'rounds' | 'simulations' | 'simulated_requests'> {
  return {
    kvferry: version,
    kind: 'plan',
    schema_version: 1,
    simulated: true,
    costs: { name: costs.name, source: costs.source, about: costs.about },
    ...movingOf(config),
    model: config.model,
    workload: {
      ...{ source, scale, requests: load.requests, sample: samples.at(-1)! },
      ...{ own_rate: load.ownRate, sample_own_rate: sampleRate },
    },
    slo: { ttft_ms: config.sloTtft, tpot_ms: config.sloTpot, attainment: shareOf(config.attainment) },
    searched: {
      routing: space.routings.map(({ name }) => name),
      mode: [...space.modes],
      threshold: [...space.thresholds],
      placement: [...space.placements],
      store: [...space.stores],
      max_engines: space.maxEngines,
    },
    engine: engineOf(config),
    seed: config.seed,
    seeds: config.seeds,
    notes: [...notes(row), ...storeNotes(space, costs, options.store ?? null)],
  };
}

function storeNotes({ stores }: Space, costs: SimulationCosts, store: StoreOptions | null): string[] {
  if (!store || stores.every((bytes) => bytes === null)) return [];
  const { assumed, tiers } = storeTimes(store, costs);
  const below = tiers.map(({ tier }) => tier).join(' and a ');
  const guessed = tiers.filter(({ read }) => read.source === 'assumed').map(({ tier }) => tier);
  return [
    ...(below ? [`Below each store lies a ${below}, empty at the beginning.`] : []),
    ...(assumed
      ? ['The costs say nothing of a store: loads and saves are assumed to take what READs do.']
      : []),
    ...guessed.map((tier) => `The costs say nothing of a store's ${tier}: its times are assumed.`),
  ];
}

export const engineOf = ({ blockSize, pBlocks, dBlocks }: RunConfig): PlanReport['engine'] => ({
  block_size: blockSize,
  p_blocks: pBlocks!,
  d_blocks: dBlocks!,
});

export function rowOf(outcome: Outcome): PlanRow {
  const { candidate, interval, ttftMs, tpotMs } = outcome;
  return {
    engines: enginesOf(candidate),
    prefill: candidate.prefill,
    decode: candidate.decode,
    // One roleset is no other than all of them.
    placement: groupsOf(candidate) > 1 ? candidate.placement : 'pooled',
    rolesets: groupsOf(candidate),
    routing: candidate.routing.name,
    mode: candidate.mode,
    threshold: thresholdOf(candidate),
    store_bytes: candidate.storeBytes,
    requests_per_second: outcome.perSecond,
    sample: outcome.sample,
    with_warm_up: outcome.withWarmUp,
    counted: outcome.counted,
    due: outcome.due,
    share: outcome.share,
    ...interval,
    missed: outcome.missed,
    ttft_ms: ttftMs,
    tpot_ms: tpotMs,
    wait_growth: outcome.waitGrowth,
    good_per_second: outcome.goodPerSecond,
    counted_ms: outcome.countedMs,
    verdict: outcome.verdict,
    busy: outcome.busy,
    met: outcome.met,
  };
}

const thresholdOf = ({ mode, threshold }: Candidate): number | null =>
  mode === 'bidirectional' ? threshold : null;

export const goodputReport = ({ best, above, surely, surelyNot, tried }: Goodput): PlanReport['goodput'] => ({
  requests_per_second: best.perSecond,
  not_at: above?.perSecond ?? null,
  surely,
  surely_not_at: surelyNot,
  tried: tried.map(rowOf),
});

/** Rounds for the report; identical neighbours are merged and counted. */
export function roundsReport(rounds: readonly Round[]): PlanReport['rounds'] {
  const merged: PlanReport['rounds'] = [];
  for (const { what, sample, candidates, kept } of rounds) {
    const last = merged.at(-1);
    if (last?.what === what && last.sample === sample && candidates === 1) last.times++;
    else merged.push({ what, sample, candidates, kept, times: 1 });
  }
  return merged;
}
