/**
 * The workload of vLLM's PR 32553 (bidirectional KV transfer), and the figures that the PR gives: Llama 3.3 70B on p5en
 * instances, 2 clients, 24 conversations, all active, stopped when the first one ended (126 to 129 requests).
 */
import type { GeneratorSpec } from './generate.ts';

export const pr32553: GeneratorSpec = {
  filetype: 'generate_conversations',
  num_conversations: 24,
  prompt_input: {
    num_turns: { distribution: 'uniform', min: 12, max: 18 },
    common_prefix_num_tokens: { distribution: 'constant', value: 500 },
    prefix_num_tokens: { distribution: 'lognormal', average: 4000, max: 10_000 },
    num_tokens: { distribution: 'uniform', min: 120, max: 160 },
  },
  prompt_output: { num_tokens: { distribution: 'uniform', min: 800, max: 1200 } },
};

export const PR32553_CLIENTS = { numClients: 2, maxActiveConversations: 24 } as const;

interface Published {
  source: string;
  /** Milliseconds: without, and with D's KV pulled back. */
  ttft_ms: Readonly<Record<string, { reference: number; candidate: number; ratio: number }>>;
}

const row = (reference: number, candidate: number) => ({
  reference,
  candidate,
  ratio: reference / candidate,
});
const source = 'vLLM PR 32553, Llama-3.3-70B on p5en, mean and quantiles of TTFT';

/** TPOT was about 21.8 ms in all four. */
export const pr32553Published: Readonly<Record<'noPrefixCaching' | 'prefixCaching', Published>> = {
  noPrefixCaching: {
    source,
    ttft_ms: {
      mean: row(1049.77, 498.15),
      p50: row(958.59, 460.48),
      p90: row(1639.5, 739.1),
      p99: row(2489.8, 1746.2),
    },
  },
  prefixCaching: {
    source,
    ttft_ms: { mean: row(396.73, 334.39), p50: row(307.86, 219.61), p99: row(2186, 1976) },
  },
};
