/**
 * Measures how accurate a simulation is: serves the same load several times on real engines, simulates it as often, and
 * compares figure by figure, with the spread of the real runs. Nothing is fitted here.
 */

import { mean, sampleCorrelation } from 'simple-statistics';
import type { Clock } from '../../engine/types.ts';
import { ConfigError } from '../../errors.ts';
import type { Cluster } from '../../fleet/types.ts';
import { quantile } from '../../measure/statistics.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import { sum, sumOf } from '../../sum.ts';
import type { PastRouting } from '../replayed-routing.ts';
import { type SimulatedArmPlan, type SimulationWorld, serveLoad, simulateOnce } from '../run.ts';
import { Collector, keyOf } from './collector.ts';

export interface ComparedFigure {
  name: string;
  unit: 'ms' | '/s' | '%' | '';
  /** Mean over the real runs. */
  real: number;
  /** Half the distance from the least to the most of the real runs, as a share of their mean. */
  spread: number;
  simulated: number;
  /** simulated / real - 1. */
  error: number;
  /** Within 10%, or within twice the spread if that is more; an exact figure must be equal. */
  met: boolean;
  /** A count in which the real runs agree, provided that they routed every turn alike. */
  exact: boolean;
}

export interface ValidatedArm {
  label: string;
  runs: number;
  requests: number;
  figures: ComparedFigure[];
  /**
   * Errors of each request's TTFT against its mean over the real runs: mean absolute error as a share, and correlation.
   */
  perRequest: { mape: number; r: number | null };
  decisions: ComparedDecisions;
  failed: number;
}

/** How far routing and counts agree. Where routing depends on timing, counts depend on which engine was chosen. */
interface ComparedDecisions {
  /** Mean share of requests that go to the same engines as in a real run. */
  alike: number;
  /** The same share between pairs of real runs; null: there was only one. */
  amongReal: number | null;
  /**
   * Each real run is simulated once more with its own routing choices. `counted`: requests that both served;
   * `asCounted`: those of them that found, pulled and moved the same. When clients stop after a number of requests,
   * timing decides which come last, so requests that only one of the two served do not count.
   */
  counted: number;
  asCounted: number;
  /** The same share between real runs that routed every turn alike; null: no two did. */
  amongRealCounted: number | null;
}

const GOAL = 0.1;

export interface ValidationOptions {
  runs: number;
  seed: number;
  signal: AbortSignal;
  clock: Pick<Clock, 'now' | 'sleep'>;
  onRun: (label: string, run: number) => void;
  /** Awaited before each run. */
  between: () => Promise<void>;
}

/**
 * Serves the arms in turn, so that drift affects all alike; the first run of each arm does not count. Then simulates
 * each arm twice for each counted run: with its policy, and with the routing choices of that run.
 */
export async function validate(
  cluster: Cluster,
  plans: readonly SimulatedArmPlan[],
  /** Called after the last real run. */
  world: () => SimulationWorld,
  options: ValidationOptions,
): Promise<ValidatedArm[]> {
  const real = plans.map(() => [] as Collector[]);
  for (let run = 0; run <= options.runs; run++) {
    for (const [i, plan] of plans.entries()) {
      await options.between();
      options.onRun(plan.label, run);
      const served = await serveReal(cluster, plan, options);
      if (run > 0) real[i]!.push(served);
    }
  }
  const arms: ValidatedArm[] = [];
  for (const [i, plan] of plans.entries()) {
    const simulatedAs = async (stepSeed: number, chosen: PastRouting | null): Promise<Collector> => {
      const collector = new Collector({ keyed: true });
      await simulateOnce(plan, { ...world(), stepSeed, chosen }, options.seed, collector);
      return collector;
    };
    // As often as the real runs, since steps vary.
    const [simulated, again]: [Collector[], Collector[]] = [[], []];
    for (const [seed, run] of real[i]!.entries()) {
      simulated.push(await simulatedAs(seed, null));
      again.push(await simulatedAs(seed, chosenIn(run)));
    }
    arms.push(compared(plan.label, real[i]!, simulated, again));
  }
  return arms;
}

async function serveReal(
  cluster: Cluster,
  { options: arm, load }: SimulatedArmPlan,
  { clock, seed, signal }: ValidationOptions,
): Promise<Collector> {
  const { nixl } = arm.connector;
  await cluster.configure({
    mode: arm.mode,
    recomputeThreshold: nixl.recomputeThreshold,
    prefixCaching: arm.prefill.enablePrefixCaching,
    prefillBlocks: arm.prefill.numBlocks,
    decodeBlocks: arm.decode.numBlocks,
    ...(arm.routing ? { routing: arm.routing } : {}),
    ...(arm.allFullKv === undefined ? {} : { allFullKv: arm.allFullKv }),
  });
  if (load.kind === 'trace') throw new ConfigError('--validate does not serve traces: omit --trace');
  const collector = new Collector({ keyed: true });
  const begunMs = clock.now();
  const fleet = {
    generate: (request: Parameters<Cluster['generate']>[0]) => cluster.generate(request),
    endConversation: (id: string) => cluster.endConversation(id),
    clock: { now: () => clock.now() - begunMs, sleep: clock.sleep },
  };
  await serveLoad(fleet, load, collector, { seed, signal });
  return collector;
}

/** The compared figures of one run. */
function figuresOf(
  collector: Collector,
): Map<string, { unit: ComparedFigure['unit']; value: number; exact?: true }> {
  const figures = new Map<string, { unit: ComparedFigure['unit']; value: number; exact?: true }>();
  const tpots = Array.from({ length: collector.count }, (_, i) => collector.tpotMs(i)).filter(
    (ms) => ms !== null,
  );
  for (const [name, samples] of [
    ['TTFT', [...collector.column('ttftMs')]],
    ['TPOT', tpots],
    ['latency', [...collector.column('latencyMs')]],
  ] as const) {
    if (samples.length === 0) continue;
    figures.set(`${name} mean`, { unit: 'ms', value: sum(samples) / samples.length });
    for (const q of [50, 90, 99])
      figures.set(`${name} p${q}`, { unit: 'ms', value: quantile(samples, q / 100) });
  }
  const seconds = (collector.lastEndMs - collector.fromMs) / 1000;
  figures.set('requests', { unit: '/s', value: collector.count / seconds });
  const prompt = sum(collector.column('promptTokens'));
  figures.set('hit share', { unit: '%', value: (100 * sum(collector.column('localHitTokens'))) / prompt });
  figures.set('pulled tokens', { unit: '', value: sum(collector.column('pulledTokens')), exact: true });
  figures.set('bytes P to D', { unit: '', value: sum(collector.column('bytesPToD')), exact: true });
  figures.set('bytes D to P', { unit: '', value: sum(collector.column('bytesDToP')), exact: true });
  figures.set('output tokens', { unit: '', value: sum(collector.column('outputTokens')), exact: true });
  return figures;
}

/** `again`: simulations with the routing choices of each real run. */
export function compared(
  label: string,
  real: readonly Collector[],
  simulated: readonly Collector[],
  again: readonly Collector[] = [],
): ValidatedArm {
  const runs = real.map(figuresOf);
  const simulations = simulated.map(figuresOf);
  const decided = decisions(real, simulated, again);
  // Where real runs route turns differently, counts that agree do so by chance.
  const settled = (decided.amongReal ?? 1) === 1;
  const figures = [...simulations[0]!].map(([name, { unit, exact: isCount = false }]): ComparedFigure => {
    const value = mean(simulations.flatMap((each) => each.get(name)?.value ?? []));
    const values = runs.flatMap((figures) => figures.get(name)?.value ?? []);
    const real = mean(values);
    const spread = real === 0 ? 0 : (Math.max(...values) - Math.min(...values)) / 2 / real;
    const error = real === value ? 0 : value / real - 1;
    const exact = isCount && settled && spread === 0;
    const met = exact ? error === 0 : Math.abs(error) <= Math.max(GOAL, 2 * spread);
    return { name, unit, real, spread, simulated: value, error, met, exact };
  });
  return {
    label,
    runs: real.length,
    requests: simulated[0]!.count,
    figures,
    perRequest: perRequest(real, simulated),
    decisions: decided,
    failed: sumOf([...real, ...simulated, ...again], ({ failed }) => failed),
  };
}

function perRequest(real: readonly Collector[], simulated: readonly Collector[]): ValidatedArm['perRequest'] {
  const realTtfts = meanTtfts(real);
  const pairs = [...meanTtfts(simulated)].flatMap(([key, ms]) => {
    const realMs = realTtfts.get(key);
    return realMs === undefined ? [] : [[realMs, ms] as const];
  });
  if (pairs.length === 0) return { mape: 0, r: null };
  const mape = sumOf(pairs, ([a, b]) => Math.abs(b / a - 1)) / pairs.length;
  return { mape, r: correlation(pairs) };
}

/** Mean TTFT by request, over the runs that served it, ms. Timing decides which of a number of requests come last. */
function meanTtfts(runs: readonly Collector[]): ReadonlyMap<string, number> {
  const served = new Map<string, number[]>();
  for (const collector of runs) {
    const ttfts = collector.column('ttftMs');
    for (const [i, key] of collector.keys!.entries()) {
      const others = served.get(key);
      if (others) others.push(ttfts[i]!);
      else served.set(key, [ttfts[i]!]);
    }
  }
  return new Map([...served].map(([key, ms]) => [key, mean(ms)]));
}

const routes = ({ keys, routed }: Collector): ReadonlyMap<string, RoutedTurn | null> =>
  new Map(keys!.map((key, i) => [key, routed[i]!]));

/** The routing choices of a run. */
export function chosenIn(run: Collector): PastRouting {
  const byKey = routes(run);
  return (conversationId, turn) => byKey.get(keyOf(conversationId, turn)) ?? null;
}

function decisions(
  real: readonly Collector[],
  simulated: readonly Collector[],
  again: readonly Collector[],
): ComparedDecisions {
  const pairs = real.flatMap((one, i) =>
    real.slice(i + 1).map((other) => ({ one, other, alike: alike(one, other) })),
  );
  const counts = again.map((run, i) => asCounted(real[i]!, run));
  const twins = pairs
    .filter((pair) => pair.alike === 1)
    .map(({ one, other }) => asCounted(one, other))
    .map(({ same, both }) => same / Math.max(1, both));
  return {
    alike: mean(real.flatMap((run) => simulated.map((other) => alike(run, other)))),
    amongReal: pairs.length > 0 ? mean(pairs.map((pair) => pair.alike)) : null,
    counted: sumOf(counts, ({ both }) => both),
    asCounted: sumOf(counts, ({ same }) => same),
    amongRealCounted: twins.length > 0 ? mean(twins) : null,
  };
}

/** Share of the requests of `one` that `other` routed alike. */
function alike(one: Collector, other: Collector): number {
  const others = routes(other);
  const went = (turn: RoutedTurn | null | undefined): string =>
    turn ? `${turn.way} ${turn.prefill} ${turn.decode}` : '';
  const same = one.keys!.filter((key, i) => went(one.routed[i]) === went(others.get(key)));
  return same.length / Math.max(1, one.count);
}

const COUNTS = ['localHitTokens', 'pulledTokens', 'bytesPToD', 'bytesDToP', 'outputTokens'] as const;

/** Requests that both runs served, and those of them that found, pulled and moved the same. */
function asCounted(one: Collector, other: Collector): { both: number; same: number } {
  const places = new Map(other.keys!.map((key, i) => [key, i]));
  const pairs = one.keys!.flatMap((key, i) => {
    const place = places.get(key);
    return place === undefined ? [] : [[i, place] as const];
  });
  const same = pairs.filter(([i, place]) =>
    COUNTS.every((name) => one.column(name)[i] === other.column(name)[place]),
  );
  return { both: pairs.length, same: same.length };
}

/** Pearson's r; null if one side does not vary. */
function correlation(pairs: readonly (readonly [number, number])[]): number | null {
  if (pairs.length < 2) return null;
  const r = sampleCorrelation(
    pairs.map(([a]) => a),
    pairs.map(([, b]) => b),
  );
  return Number.isNaN(r) ? null : r;
}

/**
 * Pairs of arms whose mean TTFTs differ by more than 20% in the real runs, and how many of them the simulation puts in
 * the same order.
 */
export function ranking(arms: readonly ValidatedArm[]): { pairs: number; alike: number } {
  const found = { pairs: 0, alike: 0 };
  const ttft = (arm: ValidatedArm) => arm.figures.find(({ name }) => name === 'TTFT mean')!;
  arms.forEach((arm, i) => {
    for (const other of arms.slice(i + 1)) {
      const [a, b] = [ttft(arm), ttft(other)];
      if (Math.abs(a.real - b.real) / Math.min(a.real, b.real) <= 0.2) continue;
      found.pairs++;
      if (a.real < b.real === a.simulated < b.simulated) found.alike++;
    }
  });
  return found;
}
