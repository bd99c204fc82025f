/**
 * Costs and gains of KV paths: bytes by edge and by hop, memory by tier, holds and their duration, and the fastest path by
 * prompt length. Independent of how the paths are served.
 */

import { sum, sumOf } from '../../sum.ts';
import { outcomeOf } from '../outcome.ts';
import type { BenchLength, BenchPath, Interval } from '../schemas/bench-paths-schema.ts';
import { turnKey } from '../spans/turn-key.ts';
import { median, sortedQuantile } from '../statistics.ts';
import { type BootstrapOptions, LEAST_REQUESTS, type ModeRequests, ratios } from './bench-comparison.ts';
import type { MeasuredRequest } from './bench-summary.ts';

/** Bytes of one arm in one round. */
export interface CarriedKv {
  storeToP: number;
  storeToD: number;
  pToStore: number;
  dToStore: number;
  twoHops: number;
  savingBlockMs: number;
  /** Blocks of the pools of all P, and of all D. */
  pBlocks: number;
  dBlocks: number;
  storeBytes: number;
  storeCapacity: number;
}

export interface PathFacts {
  name: string;
  requests: readonly MeasuredRequest[];
  /** One entry per round. */
  carried: readonly CarriedKv[];
  blockBytes: number;
  /** Blocks × milliseconds, all rounds together. */
  heldForPMs: number;
  heldForDMs: number;
}

export function summarisePath(facts: PathFacts): BenchPath {
  const { carried, requests, blockBytes } = facts;
  const rounds = Math.max(1, carried.length);
  const mean = (values: readonly number[]): number => sum(values) / rounds;
  const perRound = (value: (one: CarriedKv) => number): number => Math.round(mean(carried.map(value)));
  const most = (value: (one: CarriedKv) => number): number => Math.max(0, ...carried.map(value));
  return {
    name: facts.name,
    bytes: {
      p_to_d: Math.round(mean(requests.map(({ bytesPToD }) => bytesPToD ?? 0))),
      d_to_p: Math.round(mean(requests.map(({ bytesDToP }) => bytesDToP ?? 0))),
      store_to_p: perRound(({ storeToP }) => storeToP),
      store_to_d: perRound(({ storeToD }) => storeToD),
      p_to_store: perRound(({ pToStore }) => pToStore),
      d_to_store: perRound(({ dToStore }) => dToStore),
      two_hops: perRound(({ twoHops }) => twoHops),
    },
    memory: {
      p_pool_bytes: most(({ pBlocks }) => pBlocks) * blockBytes,
      d_pool_bytes: most(({ dBlocks }) => dBlocks) * blockBytes,
      store_bytes: most(({ storeBytes }) => storeBytes),
      store_capacity_bytes: most(({ storeCapacity }) => storeCapacity),
    },
    held_block_seconds: {
      on_d_for_p: facts.heldForPMs / 1000 / rounds,
      on_p_for_d: facts.heldForDMs / 1000 / rounds,
      saving: mean(carried.map(({ savingBlockMs }) => savingBlockMs)) / 1000,
    },
  };
}

/** Most length classes; each has the same number of requests. */
const MOST_CLASSES = 3;

/** A request under every path: TTFT in milliseconds, one entry per round. */
interface Served {
  promptTokens: number;
  ttftMs: ReadonlyMap<string, readonly number[]>;
}

/** Empty if no request of a later turn was answered under every path. Other paths are compared with the first. */
export function byLength(ways: readonly ModeRequests[], options: BootstrapOptions): BenchLength[] {
  const served = servedByAll(ways).toSorted((a, b) => a.promptTokens - b.promptTokens);
  const fitting = Math.floor(served.length / LEAST_REQUESTS);
  const classes = Math.min(MOST_CLASSES, served.length, Math.max(1, fitting));
  return Array.from({ length: classes }, (_, i) =>
    served.slice(Math.round((i * served.length) / classes), Math.round(((i + 1) * served.length) / classes)),
  ).map((some) =>
    ofClass(
      some,
      ways.map(({ mode }) => mode),
      options,
    ),
  );
}

function ofClass(some: readonly Served[], keys: readonly string[], options: BootstrapOptions): BenchLength {
  const times = (key: string) => some.map(({ ttftMs }) => ttftMs.get(key)!);
  const faster = (than: string, key: string): Interval => {
    const pairs = some.map(({ ttftMs }) => {
      const [a, b] = [ttftMs.get(than)!, ttftMs.get(key)!];
      return a.slice(0, b.length).map((ms, i) => [ms, b[i]!] as const);
    });
    const { ratio, low, high } = ratios(pairs, options).p50;
    return { value: ratio ?? 1, low, high };
  };
  const [first] = keys;
  const ranked = keys.toSorted((a, b) => median(times(a).flat()) - median(times(b).flat()));
  const [best, next] = ranked as [string, string | undefined];
  const ahead = next === undefined ? null : { way: next, times_faster: faster(next, best) };
  return {
    from_tokens: some[0]!.promptTokens,
    to_tokens: some.at(-1)!.promptTokens,
    requests: some.length,
    ways: Object.fromEntries(
      keys.map((key) => [
        key,
        {
          ttft_ms: medianOf(times(key), options),
          times_faster: key === first ? null : faster(first!, key),
        },
      ]),
    ),
    best,
    ahead_of: ahead,
    sure: ahead !== null && outcomeOf(compared(ahead.times_faster)) === 'ahead',
  };
}

/** In the form that outcomeOf() takes. */
export const compared = ({ value, low, high }: Interval) => ({ ratio: value, low, high });

/**
 * What each path lost against the best path of each request, in hindsight, from medians over a request's rounds; later turns
 * only. The best of several noisy medians is slightly too good, so regrets are rather too high than too low.
 */
export function regretOf(
  ways: readonly ModeRequests[],
): Record<string, { regret_ms: number; share: number }> {
  const served = servedByAll(ways);
  const medians = served.map(({ ttftMs }) => new Map([...ttftMs].map(([key, ms]) => [key, median(ms)])));
  const best = sumOf(medians, (each) => Math.min(...each.values()));
  return Object.fromEntries(
    ways.map(({ mode }) => {
      const total = sumOf(medians, (each) => each.get(mode)!);
      const lost = medians.length > 0 ? (total - best) / medians.length : 0;
      return [mode, { regret_ms: lost, share: best > 0 ? (total - best) / best : 0 }];
    }),
  );
}

/** With a bootstrap interval over requests, each with all its rounds. */
export function medianOf(
  groups: readonly (readonly number[])[],
  { resamples, confidence, random }: BootstrapOptions,
): Interval {
  if (groups.length < LEAST_REQUESTS) return { value: median(groups.flat()), low: null, high: null };
  const drawn = Array.from({ length: resamples }, () =>
    median(groups.flatMap(() => groups[Math.floor(random() * groups.length)]!)),
  ).toSorted((a, b) => a - b);
  const tail = (1 - confidence) / 2;
  return {
    value: median(groups.flat()),
    low: sortedQuantile(drawn, tail),
    high: sortedQuantile(drawn, 1 - tail),
  };
}

/** Times of later turns, by request. */
export function laterTtfts(requests: readonly MeasuredRequest[]): Map<string, number[]> {
  const times = new Map<string, number[]>();
  for (const { sample } of requests) {
    if (sample.turn === 1) continue;
    const key = turnKey(sample);
    const known = times.get(key);
    if (known) known.push(sample.ttft_ms);
    else times.set(key, [sample.ttft_ms]);
  }
  return times;
}

function servedByAll(ways: readonly ModeRequests[]): Served[] {
  const times = ways.map(({ mode, requests }) => ({ mode, times: laterTtfts(requests) }));
  const lengths = new Map(
    (ways[0]?.requests ?? []).map(({ sample }) => [turnKey(sample), sample.input_num_tokens]),
  );
  return [...(times[0]?.times.keys() ?? [])].flatMap((request) => {
    const ttftMs = new Map(
      times.flatMap((way) => {
        const found = way.times.get(request);
        return found ? [[way.mode, found] as const] : [];
      }),
    );
    return ttftMs.size === ways.length ? [{ promptTokens: lengths.get(request)!, ttftMs }] : [];
  });
}
