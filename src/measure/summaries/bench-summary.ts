/** Summarises a mode's requests: vLLM's rows, time between tokens, and the memory cost of reuse. */

import { sum } from '../../sum.ts';
import {
  BENCH_METRICS,
  type BenchMode,
  type BenchSample,
  type BenchTable,
  type Described,
} from '../schemas/bench-mode-schema.ts';
import type { TurnAudit } from '../schemas/report.ts';
import { meanStages } from '../spans/stages.ts';
import { describeSamples, sortedQuantile } from '../statistics.ts';

/** One request, including values that are only summed up. */
export interface MeasuredRequest {
  sample: BenchSample;
  /** Milliseconds between each token (or chunk) and the previous one. */
  gapsMs: readonly number[];
  /** The answer: token ids, or the text from a server. */
  output: readonly (number | string)[];
  bytesPToD: number | null;
  bytesDToP: number | null;
  /** The engines that served it and the one whose KV was offered; absent without routing. */
  routed?: { prefill: string | null; decode: string; load: string | null };
  /** Present if the request was served both ways. */
  audit?: TurnAudit;
}

/** Blocks kept for readers, integrated by the engine. */
export interface HeldBlocks {
  blockMs: number;
  peakBlocks: number;
  overMs: number;
}

/** Totals of a mode's rounds, besides its requests. */
export interface ModeFacts {
  mode: string;
  label: string;
  threshold: number | null;
  /** Excludes `cutRounds`, like everything counted over time: they served more than the reported requests. */
  runtimeMs: number;
  cutRounds?: ReadonlySet<number>;
  errors: ReadonlyMap<string, number>;
  blockBytes: number | null;
  heldForP: HeldBlocks | null;
  heldForD: HeldBlocks | null;
  /** Peak KV in use by role; null if not counted. */
  peakKvBytes: { prefill: number; decode: number } | null;
  /** null or absent: no store. */
  store?: { bytes_from_store: number; bytes_to_store: number; two_hop_bytes: number } | null;
  preemptions: number | null;
  /** null if not counted. */
  notPulled: { holdsDropped: { for_p: number; for_d: number }; noPulls: Record<string, number> } | null;
  firstUseCompilations: number | null;
  warmupPercentages: readonly number[];
}

/** null if no request succeeded. */
export function summariseMode(requests: readonly MeasuredRequest[], facts: ModeFacts): BenchMode | null {
  const samples = requests.map(({ sample }) => sample);
  const table = tableOf(samples);
  if (!table) return null;
  const outputOf = (some: readonly BenchSample[]): number =>
    total(some, (sample) => sample.output_num_tokens)!;
  const timed = samples.filter(({ round }) => !facts.cutRounds?.has(round));
  const seconds = facts.runtimeMs / 1000;
  return {
    mode: facts.mode,
    label: facts.label,
    threshold: facts.threshold,
    table,
    warmup_tables: facts.warmupPercentages.flatMap((warmup_percent) => {
      const rest = tableOf(afterWarmup(samples, warmup_percent));
      return rest && warmup_percent > 0 ? [{ warmup_percent, table: rest }] : [];
    }),
    itl_ms: itlOf(requests.flatMap(({ gapsMs }) => gapsMs)),
    requests: samples.length,
    failed_requests: sum(facts.errors.values()),
    errors: [...facts.errors].map(([message, count]) => ({ message, count })),
    prompt_tokens: total(samples, (sample) => sample.input_num_tokens),
    ...(samples[0]!.cached_tokens !== undefined && {
      cached_tokens: total(samples, (sample) => sample.cached_tokens ?? null),
    }),
    local_hit_tokens: total(samples, (sample) => sample.local_hit_tokens),
    pulled_tokens: total(samples, (sample) => sample.pulled_tokens),
    computed_tokens: total(samples, (sample) => sample.computed_tokens),
    output_tokens: outputOf(samples),
    bytes_p_to_d: total(requests, (request) => request.bytesPToD),
    bytes_d_to_p: total(requests, (request) => request.bytesDToP),
    ...facts.store,
    stages_ms: meanStages(samples),
    runtime_ms: facts.runtimeMs,
    requests_per_second: seconds > 0 ? timed.length / seconds : 0,
    output_tokens_per_second: seconds > 0 ? outputOf(timed) / seconds : 0,
    held_for_p: heldOf(facts.heldForP, facts.blockBytes),
    held_for_d: heldOf(facts.heldForD, facts.blockBytes),
    ...(facts.peakKvBytes && { peak_kv_bytes: facts.peakKvBytes }),
    preemptions: facts.preemptions,
    ...(facts.notPulled && {
      holds_dropped: facts.notPulled.holdsDropped,
      not_pulled: facts.notPulled.noPulls,
    }),
    first_use_compilations: facts.firstUseCompilations,
    samples,
  };
}

function tableOf(samples: readonly BenchSample[]): BenchTable | null {
  const rows = BENCH_METRICS.map((metric): [string, Described | null] => [
    metric,
    describeSamples(samples.map((sample) => sample[metric])),
  ]);
  return rows.every(([, described]) => described) ? (Object.fromEntries(rows) as BenchTable) : null;
}

/** vLLM drops the first share of a run's samples, in the order in which they began; here this applies to each round. */
function afterWarmup(samples: readonly BenchSample[], percent: number): BenchSample[] {
  const rounds = [...new Set(samples.map(({ round }) => round))];
  return rounds.flatMap((round) => {
    const byStart = samples
      .filter((sample) => sample.round === round)
      .toSorted((a, b) => a.start_ms - b.start_ms);
    return byStart.slice(Math.floor((percent / 100) * byStart.length));
  });
}

function itlOf(gaps: readonly number[]): BenchMode['itl_ms'] {
  if (gaps.length === 0) return null;
  const sorted = gaps.toSorted((a, b) => a - b);
  return {
    count: sorted.length,
    mean: sum(sorted) / sorted.length,
    p50: sortedQuantile(sorted, 0.5),
    p90: sortedQuantile(sorted, 0.9),
    p99: sortedQuantile(sorted, 0.99),
    max: sorted.at(-1)!,
  };
}

/** null if any is unknown. */
function total<T>(list: readonly T[], value: (item: T) => number | null): number | null {
  return list.reduce<number | null>((sum, item) => {
    const next = value(item);
    return sum === null || next === null ? null : sum + next;
  }, 0);
}

function heldOf(held: HeldBlocks | null, blockBytes: number | null): BenchMode['held_for_p'] {
  if (!held || blockBytes === null) return null;
  const blockSeconds = held.blockMs / 1000;
  return {
    mean_blocks: held.overMs > 0 ? held.blockMs / held.overMs : 0,
    peak_blocks: held.peakBlocks,
    block_seconds: blockSeconds,
    byte_seconds: blockSeconds * blockBytes,
  };
}
