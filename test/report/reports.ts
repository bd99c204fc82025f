/** Whole reports: a run of the fake cluster, and a benchmark built from given times. */
import { main } from '../../src/cli/app.ts';
import { type BenchReport, benchReportSchema } from '../../src/measure/schemas/bench-report.ts';
import { type Report, reportSchema } from '../../src/measure/schemas/report.ts';
import { comparePair, compareTokens } from '../../src/measure/summaries/bench-comparison.ts';
import { type MeasuredRequest, summariseMode } from '../../src/measure/summaries/bench-summary.ts';
import { fakeWorld } from '../cli/fake.ts';
import type { FakeTroubles } from '../cli/fake-cluster.ts';

export const RUN = ['run', '--model', 'nano', '--turns', '4', '--user-tokens', '20', '--output-tokens', '6'];

export async function runReport(argv: readonly string[] = RUN, troubles: FakeTroubles = {}): Promise<Report> {
  const world = fakeWorld(troubles);
  await main([...argv, '--json'], world.deps);
  return reportSchema.parse(JSON.parse(world.out()));
}

export interface BenchShape {
  /** TTFT in ms; `round` and `request` (within the round) count from 0. */
  ttft(mode: string, round: number, request: number): number;
  rounds: number;
  requests: number;
  pulled?: number;
}

const MODES = ['unidirectional', 'bidirectional'] as const;

export function benchReport({ ttft, rounds, requests, pulled = 300 }: BenchShape): BenchReport {
  const measured = MODES.map((mode) => {
    const list = Array.from({ length: rounds * requests }, (_, i): MeasuredRequest => {
      const [round, request] = [Math.floor(i / requests), i % requests];
      const ttft_ms = ttft(mode, round, request);
      return {
        sample: {
          round: round + 1,
          conversation_id: `c${request % 3}`,
          turn: 1 + Math.floor(request / 3),
          client: 0,
          start_ms: 10 * request,
          ttft_ms,
          tpot_ms: 5,
          latency_ms: ttft_ms + 50,
          input_num_turns: 1,
          input_num_tokens: 100,
          output_num_tokens: 11,
          output_num_chunks: 10,
          local_hit_tokens: 0,
          pulled_tokens: mode === 'bidirectional' ? pulled : 0,
          computed_tokens: 100,
          stages_ms: { prefill: ttft_ms * 0.8, first_decode_step: ttft_ms * 0.2 },
        },
        gapsMs: [4, 5, 6],
        output: [1, 2, 3],
        bytesPToD: 4096,
        bytesDToP: mode === 'bidirectional' ? 4096 : 0,
      };
    });
    return { mode, requests: list };
  });
  const modes = measured.map(
    ({ mode, requests }) =>
      summariseMode(requests, {
        mode,
        label: mode,
        threshold: 4,
        runtimeMs: 4000,
        errors: new Map(),
        blockBytes: 4096,
        heldForP: { blockMs: 9000, peakBlocks: 8, overMs: 4000 },
        heldForD: null,
        peakKvBytes: null,
        preemptions: 0,
        notPulled: null,
        firstUseCompilations: 0,
        warmupPercentages: [],
      })!,
  );
  let state = 1;
  const random = (): number => {
    state = (state * 48271) % 2147483647;
    return state / 2147483647;
  };
  const pair = comparePair(measured[0]!, measured[1]!, {
    resamples: 400,
    confidence: 0.95,
    random,
    seed: 1,
  })!;
  const comparison = { ...pair, ...compareTokens(measured) };
  const byMode = Object.fromEntries(modes.map((mode) => [mode.mode, mode]));
  return benchReportSchema.parse({
    kvferry: '1.2.3',
    kind: 'bench',
    schema_version: 1,
    created: '2026-01-02T03:04:05.678Z',
    machine: { cpu: 'Abacus 3000', cores: 2, memory_bytes: 8 * 2 ** 30, os: 'Linux', node: 'v20.20.0' },
    adapter: { name: 'fake adapter', backend: 'vulkan', software: true, features: [] },
    complete: true,
    incomplete_reason: null,
    target: {
      kind: 'cluster',
      url: null,
      model: 'nano',
      block_bytes: 4096,
      kv_bytes_per_token: 256,
      parameters: 1000,
      link: null,
    },
    config: { model: 'nano', threshold: 4 },
    workload: {
      source: 'preset pr32553',
      scale: '1/16',
      seed: 0,
      num_clients: 1,
      max_active_conversations: 3,
      conversations: 3,
      requests,
      prompt_tokens: 100 * requests,
      output_tokens: 11 * requests,
      generation: { 'prompt_input.num_turns': 'uniform 12 to 18' },
    },
    plan: { budget_ms: null, spent_ms: 9000, rounds, notes: ['Lengths are a sixteenth.'] },
    recorder_overhead_percent: 0.4,
    experiments: {
      prefix_caching_off: {
        title: 'Without prefix caching on P',
        prefix_caching: false,
        p_blocks: 64,
        d_blocks: 64,
        rounds,
        modes: byMode,
        comparison,
        comparisons: {},
        published: {
          source: 'vLLM PR 32553',
          ttft_ms: { mean: { reference: 1049.8, candidate: 498.2, ratio: 2.11 } },
        },
      },
    },
    modes: Object.fromEntries(modes.map(({ samples: _, ...mode }) => [mode.mode, mode])),
    comparison,
    integrity: { ok: true, leftover_blocks: 0, problem: null },
  });
}
