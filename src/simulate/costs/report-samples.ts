/** The requests of a benchmark's report that costs are fitted to, and what ran at the same time as each of them. */
import type { BenchSample } from '../../measure/schemas/bench-mode-schema.ts';
import type { BenchReport } from '../../measure/schemas/bench-report.ts';

/**
 * Samples whose KV was not pulled, from the modes of the first experiment that hand over, and what ran at the same time
 * as each of them, pulled or not. If no mode hands over, from all modes: one engine alone can be fitted too.
 */
export function plainSamples({ experiments }: BenchReport): {
  samples: BenchSample[];
  concurrent: Concurrency[];
  handsOver: boolean;
} {
  const [first] = Object.values(experiments);
  const every = Object.values(first?.modes ?? {});
  const disaggregated = every.filter(({ mode }) => mode !== 'monolithic' && mode !== 'decode-local');
  const modes = disaggregated.length > 0 ? disaggregated : every;
  // Modes ran one after the other: round numbers keep their clocks apart.
  const all = modes.flatMap(({ samples }, mode) =>
    samples.map((sample) => ({ ...sample, round: sample.round + 10_000 * mode })),
  );
  const concurrencies = neighbours(all);
  const isPlain = (i: number): boolean => (all[i]!.pulled_tokens ?? 0) === 0;
  return {
    samples: all.filter((_, i) => isPlain(i)),
    concurrent: concurrencies.filter((_, i) => isPlain(i)),
    handsOver: disaggregated.length > 0,
  };
}

export interface Concurrency {
  /** Prompt tokens to compute of requests that arrived before and had no token yet. */
  ahead: number;
  /** Mean number of requests that decoded while it did, itself included; and their context, tokens. */
  decoding: number;
  context: number;
}

/** What ran at the same time as each request, among all others of its round. */
function neighbours(samples: readonly BenchSample[]): Concurrency[] {
  const rounds = new Map<number, BenchSample[]>();
  for (const sample of samples) {
    const same = rounds.get(sample.round);
    if (same) same.push(sample);
    else rounds.set(sample.round, [sample]);
  }
  return samples.map((sample) => {
    const from = sample.start_ms + sample.ttft_ms;
    const end = sample.start_ms + sample.latency_ms;
    const concurrent = { ahead: 0, decoding: 0, context: 0 };
    for (const other of rounds.get(sample.round)!) {
      const otherFrom = other.start_ms + other.ttft_ms;
      const otherEnd = other.start_ms + other.latency_ms;
      const isSelf = other === sample;
      if (!isSelf && other.start_ms <= sample.start_ms && otherFrom > sample.start_ms)
        concurrent.ahead += computedOf(other);
      const overlap = Math.max(0, Math.min(end, otherEnd) - Math.max(from, otherFrom));
      const share = isSelf ? 1 : end > from ? overlap / (end - from) : 0;
      concurrent.decoding += share;
      concurrent.context += share * contextOf(other);
    }
    return concurrent;
  });
}

export const computedOf = ({ computed_tokens, input_num_tokens }: BenchSample): number =>
  computed_tokens ?? input_num_tokens;

/** Tokens before each one that it generated, on average. */
export const contextOf = ({ input_num_tokens, output_num_tokens }: BenchSample): number =>
  input_num_tokens + output_num_tokens / 2;
