/**
 * Compares two modes request by request: ratios of means, medians and quantiles with bootstrap intervals, and whether all
 * modes gave the same tokens. Repeats of a request in other rounds are not independent samples, so the bootstrap draws
 * requests, each with all its rounds.
 */

import { sumOf } from '../../sum.ts';
import {
  type BenchComparison,
  type BenchPair,
  type COMPARED_METRICS,
  COMPARED_STATISTICS,
  type ComparedStatistic,
  type Ratio,
} from '../schemas/bench-report.ts';
import { turnKey } from '../spans/turn-key.ts';
import { sortedQuantile } from '../statistics.ts';
import type { MeasuredRequest } from './bench-summary.ts';

export interface BootstrapOptions {
  resamples: number;
  /** e.g. 0.95. */
  confidence: number;
  /** 0 <= x < 1, seeded. */
  random(): number;
  seed: number;
}

const QUANTILES: Record<Exclude<ComparedStatistic, 'mean'>, number> = {
  p25: 0.25,
  p50: 0.5,
  p75: 0.75,
  p90: 0.9,
  p99: 0.99,
};

export interface ModeRequests {
  mode: string;
  requests: readonly MeasuredRequest[];
}

/** With fewer requests a bootstrap interval is meaningless; a single request would give an interval of width 0. */
export const LEAST_REQUESTS = 5;

/** A request in both modes, one entry per round. */
type Pairs = readonly (readonly [reference: MeasuredRequest, candidate: MeasuredRequest])[];

/** null if no request was answered in both modes. */
export function comparePair(
  reference: ModeRequests,
  candidate: ModeRequests,
  options: BootstrapOptions,
): BenchPair | null {
  const groups = pairUp(reference.requests, candidate.requests);
  if (groups.length === 0) return null;
  const later = groups.filter((pairs) => pairs[0]![0].sample.turn > 1);
  const statistics = (chosen: readonly Pairs[], metric: (typeof COMPARED_METRICS)[number]) =>
    ratios(
      chosen.map((pairs) => pairs.map(([a, b]) => [a.sample[metric], b.sample[metric]] as const)),
      options,
    );
  const computed = (side: 0 | 1): number | null =>
    groups.flat().reduce<number | null>((sum, pair) => {
      const tokens = pair[side].sample.computed_tokens;
      return sum === null || tokens === null ? null : sum + tokens;
    }, 0);
  const [before, after] = [computed(0), computed(1)];
  return {
    reference: reference.mode,
    candidate: candidate.mode,
    requests: groups.flat().length,
    bootstrap: {
      method: 'percentile, requests drawn with all their rounds',
      resamples: options.resamples,
      confidence: options.confidence,
      seed: options.seed,
    },
    ttft_ms: statistics(groups, 'ttft_ms'),
    tpot_ms: statistics(groups, 'tpot_ms'),
    latency_ms: statistics(groups, 'latency_ms'),
    ttft_later_turns_ms: later.length > 0 ? statistics(later, 'ttft_ms') : null,
    computed_tokens_saved: before === null || after === null ? null : before - after,
  };
}

function pairUp(reference: readonly MeasuredRequest[], candidate: readonly MeasuredRequest[]): Pairs[] {
  const place = ({ sample }: MeasuredRequest): string => JSON.stringify([sample.round, turnKey(sample)]);
  const others = new Map(candidate.map((request) => [place(request), request]));
  const groups = new Map<string, [MeasuredRequest, MeasuredRequest][]>();
  for (const request of reference) {
    const other = others.get(place(request));
    if (!other) continue;
    const key = turnKey(request.sample);
    const group = groups.get(key);
    if (group) group.push([request, other]);
    else groups.set(key, [[request, other]]);
  }
  return [...groups.values()];
}

/** `groups`: per request, its pairs of values. */
export function ratios(
  groups: readonly (readonly (readonly [number, number])[])[],
  { resamples, confidence, random }: BootstrapOptions,
): Record<ComparedStatistic, Ratio> {
  const found = statisticsOf(groups);
  const drawn = COMPARED_STATISTICS.map((): number[] => []);
  const sure = groups.length >= LEAST_REQUESTS;
  for (let i = 0; sure && i < resamples; i++) {
    const again = groups.map(() => groups[Math.floor(random() * groups.length)]!);
    for (const [s, { reference, candidate }] of statisticsOf(again).entries())
      drawn[s]!.push(reference / candidate);
  }
  const tail = (1 - confidence) / 2;
  return Object.fromEntries(
    COMPARED_STATISTICS.map((name, s): [ComparedStatistic, Ratio] => {
      const { reference, candidate } = found[s]!;
      const usable = drawn[s]!.filter(Number.isFinite).toSorted((a, b) => a - b);
      const known = sure && candidate > 0 && usable.length > 0;
      return [
        name,
        {
          reference,
          candidate,
          ratio: candidate > 0 ? reference / candidate : null,
          low: known ? sortedQuantile(usable, tail) : null,
          high: known ? sortedQuantile(usable, 1 - tail) : null,
        },
      ];
    }),
  ) as Record<ComparedStatistic, Ratio>;
}

/** In the order of COMPARED_STATISTICS. */
function statisticsOf(
  groups: readonly (readonly (readonly [number, number])[])[],
): { reference: number; candidate: number }[] {
  const count = sumOf(groups, (pairs) => pairs.length);
  const sides = ([0, 1] as const).map((side) => {
    const values = new Float64Array(count);
    let at = 0;
    let sum = 0;
    for (const pairs of groups) {
      for (const pair of pairs) {
        values[at++] = pair[side];
        sum += pair[side];
      }
    }
    values.sort();
    return COMPARED_STATISTICS.map((name) =>
      name === 'mean' ? sum / count : sortedQuantile(values, QUANTILES[name]),
    );
  });
  return COMPARED_STATISTICS.map((_, s) => ({ reference: sides[0]![s]!, candidate: sides[1]![s]! }));
}

/** Compares every mode's answers with those of the first mode that answered. */
export function compareTokens(
  modes: readonly ModeRequests[],
): Pick<BenchComparison, 'tokens_identical' | 'first_difference'> {
  const answers = new Map<string, MeasuredRequest['output']>();
  for (const { mode, requests } of modes) {
    for (const { sample, output } of requests) {
      const key = turnKey(sample);
      const known = answers.get(key);
      if (!known) {
        answers.set(key, output);
        continue;
      }
      const token_index = firstDifference(known, output);
      if (token_index === null) continue;
      const { round, conversation_id, turn } = sample;
      return {
        tokens_identical: false,
        first_difference: { mode, round, conversation_id, turn, token_index },
      };
    }
  }
  return { tokens_identical: true, first_difference: null };
}

function firstDifference(a: MeasuredRequest['output'], b: MeasuredRequest['output']): number | null {
  const index = a.findIndex((token, i) => token !== b[i]);
  if (index >= 0) return index;
  return a.length === b.length ? null : a.length;
}
