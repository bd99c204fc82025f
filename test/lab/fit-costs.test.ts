import { describe, expect, it } from 'vitest';
import { tokenContext } from '../../src/connector/policy/cost-model.ts';
import {
  expectedRegret,
  fitCosts,
  type PredictingCosts,
  predictTtft,
  recommendThreshold,
} from '../../src/lab/fit-costs.ts';
import type { SweepSample, SweepSeries } from '../../src/lab/sweep.ts';

const BLOCK = { block_size: 16, block_bytes: 16_384, kv_cache_groups: [{ kind: 'full' as const }] };
/** The costs that generate the samples. */
const truth = {
  pull: { overhead_ms: 6, fixed_ms: 40, ms_per_byte: 1e-4 },
  prefill: { fixed_ms: 70, ms_per_token: 0.3, ms_per_token_context: 0.0005 },
};

function series(noise: (i: number) => number = () => 1): SweepSeries {
  const { pull, prefill } = truth;
  let i = 0;
  const sample = (context: number, pulled: boolean): SweepSample => {
    const computedTokens = pulled ? 17 : context + 17;
    const start = pulled ? context : 0;
    const blocks = Math.ceil(context / 16);
    const bytes = blocks * BLOCK.block_bytes;
    const ms = (pull.fixed_ms + pull.ms_per_byte * bytes) * noise(i++);
    const compute =
      prefill.fixed_ms +
      prefill.ms_per_token * computedTokens +
      prefill.ms_per_token_context * tokenContext(start, computedTokens);
    return {
      ttftMs: (compute + (pulled ? pull.overhead_ms : 0)) * noise(i++) + (pulled ? ms : 0),
      promptTokens: context + 17,
      localHitTokens: 0,
      pulledTokens: pulled ? context : 0,
      computedTokens,
      transfer: pulled ? { bytes, blocks, descriptors: 1, ms } : null,
    };
  };
  const points = [16, 32, 64, 128, 256, 512].map((contextTokens) => ({
    contextTokens,
    promptTokens: contextTokens + 17,
    samples: {
      pull: [1, 2, 3, 4, 5].map(() => sample(contextTokens, true)),
      recompute: [1, 2, 3, 4, 5].map(() => sample(contextTokens, false)),
      monolithic: [],
    },
  }));
  return { link: null, localHitTokens: 0, points };
}

const costs = (fitted: ReturnType<typeof fitCosts>) => ({
  ...BLOCK,
  pull: fitted.pull,
  prefill: fitted.prefill,
});

describe('fitCosts', () => {
  it('recovers the costs that generated the samples', () => {
    const fitted = fitCosts([series()]);
    for (const part of ['pull', 'prefill'] as const) {
      for (const [name, value] of Object.entries(truth[part])) {
        expect((fitted[part] as Record<string, number>)[name]! / value).toBeCloseTo(1, 4);
      }
    }
    expect(fitted.samples).toBe(60);
    expect(fitted.ttft.r2).toBeCloseTo(1, 6);
  });

  it('leads to nearly the same threshold from noisy samples with outliers', () => {
    const clean = recommendThreshold(costs(fitCosts([series()])), 1024)!;
    const noisy = series((i) => (i % 13 === 5 ? 2.5 : 1 + 0.02 * Math.sin(i * 37.7)));
    const found = recommendThreshold(costs(fitCosts([noisy])), 1024)!;
    expect(Math.abs(found / clean - 1)).toBeLessThan(0.15);
  });
});

describe('predictions from fitted costs', () => {
  const model = { ...BLOCK, ...truth };

  it('recommend the length from which pulling is at least as fast as recomputing', () => {
    const threshold = recommendThreshold(model, 1024)!;
    const at = (count: number) => predictTtft(model, count, 17);
    expect(at(threshold).pullMs).toBeLessThanOrEqual(at(threshold).recomputeMs);
    expect(at(threshold - 1).pullMs).toBeGreaterThan(at(threshold - 1).recomputeMs);
  });

  it('count only blocks that the window sees in sliding-window layers', () => {
    const hybrid = (window: number) => ({
      ...model,
      kv_cache_groups: [{ kind: 'sliding' as const, window }, { kind: 'full' as const }],
    });
    const bytes = (costs: PredictingCosts, count: number) =>
      (predictTtft(costs, count, 17).pullMs - predictTtft(costs, 0, 17).pullMs - 0.0005 * 17 * count) / 1e-4;
    // 320 tokens are 20 blocks in the full group; a window of 64 sees from token 257 on: 4 more.
    expect(bytes(model, 320)).toBeCloseTo(20 * 16_384, 3);
    expect(bytes(hybrid(64), 320)).toBeCloseTo(24 * 16_384, 3);
    expect(bytes(hybrid(4096), 320)).toBeCloseTo(40 * 16_384, 3);
    expect(recommendThreshold(hybrid(64), 1024)!).toBeLessThan(recommendThreshold(hybrid(4096), 1024)!);
  });

  it('recommend null if pulling never pays, and 0 if it always does', () => {
    const slow = { ...model, pull: { ...truth.pull, ms_per_byte: 1 } };
    expect(recommendThreshold(slow, 1024)).toBeNull();
    const free = { ...model, pull: { overhead_ms: 0, fixed_ms: 0, ms_per_byte: 0 } };
    expect(recommendThreshold(free, 1024)).toBe(0);
  });

  it('expect no regret at the recommended threshold, some at 64, more at 0, and some for never', () => {
    const threshold = recommendThreshold(model, 1024);
    const [best, vllm, always, never] = expectedRegret(model, [threshold, 64, 0, null], 16, 512);
    expect(best!.regretMs).toBeCloseTo(0, 1);
    expect(vllm!.regretMs).toBeGreaterThan(best!.regretMs);
    expect(always!.regretMs).toBeGreaterThan(vllm!.regretMs);
    expect(never!.regretMs).toBeGreaterThan(0);
    expect(always!.regretShare).toBeGreaterThan(0.05);
  });
});
