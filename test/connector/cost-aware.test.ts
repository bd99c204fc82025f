import { describe, expect, it } from 'vitest';
import { checkCostProfile, costProfileSchema, parseCostProfile } from '../../src/config/cost-profile.ts';
import { CostAwarePolicy } from '../../src/connector/policy/cost-aware.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { choosePolicy, type PullQuestion, thresholdPolicy } from '../../src/connector/policy/pull-policy.ts';
import { RecursiveLeastSquares } from '../../src/connector/policy/recursive-least-squares.ts';
import { ConfigError } from '../../src/errors.ts';

const profile = costProfileSchema.parse({
  kvferry_cost_profile: 1,
  kvferry: '0.1.0',
  date: '2026-01-01T00:00:00.000Z',
  model: 'nano',
  weight_dtype: 'f16',
  adapter: 'an adapter',
  link: { name: '10e6,40ms', bytes_per_second: 10e6, latency_ms: 40 },
  block_size: 16,
  block_bytes: 16_000,
  layout: 'contiguous',
  // 1 token is 1,000 bytes, which take 0.1 ms.
  pull: { overhead_ms: 5, fixed_ms: 35, ms_per_byte: 1e-4 },
  prefill: { fixed_ms: 50, ms_per_token: 0.5, ms_per_token_context: 0 },
  fit: {
    samples: 60,
    rounds: 5,
    least_tokens: 16,
    most_tokens: 512,
    ttft_r2: 1,
    ttft_median_error: 0,
    transfer_r2: 1,
    transfer_median_error: 0,
  },
  recommended_threshold: 100,
});

const policy = () => new CostAwarePolicy({ profile, blockSize: 16, maxNumBatchedTokens: 256 });
const ask = (count: number, more: Partial<PullQuestion> = {}): PullQuestion => ({
  count,
  localHitTokens: 0,
  promptTokens: count + 16,
  holderRequests: 0,
  ...more,
});

/** The costs of computing, from predictions that differ in one of them. */
function computing(policy: CostAwarePolicy) {
  const of = (more: Partial<PullQuestion>) => policy.predict(ask(1, more)).recomputeMs;
  const msPerToken = of({});
  return {
    msPerToken,
    // A second step for the token.
    fixedMs: of({ promptTokens: 257 }) - msPerToken,
    msPerTokenContext: (of({ localHitTokens: 100, promptTokens: 117 }) - msPerToken) / 100,
  };
}

describe('the cost-aware policy', () => {
  it('pulls if that is predicted to be faster than computing, else gives the reason', () => {
    const decide = policy();
    expect(decide.refuse(ask(64))).toBe('cost-aware: pull ~46 ms > recompute ~32 ms');
    expect(decide.refuse(ask(128))).toBeNull();
    expect(decide.predict(ask(96))).toEqual({ pullMs: 40 + 9.6, recomputeMs: 48 });
  });

  it('counts whole blocks, including a partly filled first one', () => {
    // Tokens 24 to 40 lie in blocks 1 and 2.
    expect(policy().predict(ask(16, { localHitTokens: 24 })).pullMs).toBeCloseTo(40 + 3.2, 9);
  });

  it('counts only those bytes of a windowed group that the token after a pull sees', () => {
    const bytes = kvBytesOf(16, 1000, [{ kind: 'full' }, { kind: 'sliding', window: 32, filled: 0.5 }]);
    // Token 160 sees 129 to 159, in blocks 8 and 9; token 161 of a longer sequence sees 130.
    expect([bytes(0, 160), bytes(0, 160, 159), bytes(144, 16)]).toEqual([11_000, 11_000, 1500]);
    expect(bytes(0, 160, 200)).toBe(10_000);
  });

  it('adds the bytes of pulls in progress to the predicted time', () => {
    const decide = policy();
    expect(decide.refuse(ask(128))).toBeNull();
    decide.started('a', ask(512));
    expect(decide.predict(ask(128)).pullMs).toBeCloseTo(40 + 64, 9);
    expect(decide.refuse(ask(128))).not.toBeNull();
    decide.ended('a', null);
    expect(decide.refuse(ask(128))).toBeNull();
  });

  it('learns that pulls take longer than measured, and longer still while the holder is busy', () => {
    const slow = policy();
    for (let i = 0; i < 30; i++) {
      slow.started(`r${i}`, ask(128));
      slow.ended(`r${i}`, 3 * (35 + 12.8));
    }
    expect(Math.abs(slow.predict(ask(128)).pullMs / (5 + 3 * 47.8) - 1)).toBeLessThan(0.1);
    expect(slow.refuse(ask(128))).not.toBeNull();

    const busy = policy();
    for (let i = 0; i < 40; i++) {
      const holderRequests = i % 4;
      busy.started(`r${i}`, ask(128, { holderRequests }));
      busy.ended(`r${i}`, 35 + 12.8 + 20 * holderRequests);
    }
    const pullMs = (holderRequests: number) => busy.predict(ask(128, { holderRequests })).pullMs;
    expect(pullMs(1) - pullMs(0)).toBeCloseTo(20, -1);
    expect(busy.refuse(ask(128))).toBeNull();
    expect(busy.refuse(ask(128, { holderRequests: 3 }))).not.toBeNull();
  });

  it('learns the cost of computing from the steps that ran', () => {
    const decide = policy();
    expect(decide.refuse(ask(64))).not.toBeNull();
    for (let i = 0; i < 60; i++) {
      const tokens = [17, 80, 200, 256][i % 4]!;
      decide.stepRan([{ startPosition: 0, tokenIds: new Array<number>(tokens).fill(7) }], 2 + 1.5 * tokens);
    }
    expect(Math.abs(computing(decide).msPerToken / 1.5 - 1)).toBeLessThan(0.1);
    expect(decide.refuse(ask(64))).toBeNull();
  });

  it('pulls if both take equally long, and prints times below 10 ms with one decimal', () => {
    const of = (fixed_ms: number, ms_per_token: number) =>
      new CostAwarePolicy({
        profile: {
          ...profile,
          pull: { overhead_ms: 0, fixed_ms, ms_per_byte: 0 },
          prefill: { fixed_ms: 0, ms_per_token, ms_per_token_context: 0 },
        },
        ...{ blockSize: 16, maxNumBatchedTokens: 256 },
      });
    expect(of(32, 0.5).refuse(ask(64))).toBeNull();
    expect(of(9.96, 0.125).refuse(ask(64))).toBe('cost-aware: pull ~10.0 ms > recompute ~8.0 ms');
    expect(of(10, 0.125).refuse(ask(64))).toBe('cost-aware: pull ~10 ms > recompute ~8.0 ms');
  });

  it('counts the steps that a pull saves: the rest, at least the last token, still takes one', () => {
    const decide = policy();
    // 30 ms per step, however much it computes.
    for (let i = 0; i < 200; i++) {
      const tokenIds = new Array<number>([1, 17, 80, 256][i % 4]!).fill(7);
      decide.stepRan([{ startPosition: 0, tokenIds }], 30);
    }
    const { fixedMs, msPerToken, msPerTokenContext } = computing(decide);
    expect(fixedMs).toBeCloseTo(30, 0);
    const recompute = (count: number, more: Partial<PullQuestion>, steps: number) => {
      const { recomputeMs } = decide.predict(ask(count, more));
      const { localHitTokens } = ask(count, more);
      const context = count * (localHitTokens + (count - 1) / 2);
      expect(recomputeMs).toBeCloseTo(fixedMs * steps + msPerToken * count + msPerTokenContext * context, 6);
    };
    recompute(512, { promptTokens: 528 }, 2);
    recompute(528, { promptTokens: 528 }, 2);
    recompute(256, { promptTokens: 528, localHitTokens: 256 }, 1);
    recompute(16, { promptTokens: 800 }, 0);
  });

  it('learns the cost of context, counted for each request in a step', () => {
    const decide = new CostAwarePolicy({
      profile: { ...profile, prefill: { fixed_ms: 0, ms_per_token: 0.5, ms_per_token_context: 0.004 } },
      ...{ blockSize: 16, maxNumBatchedTokens: 256 },
    });
    for (let i = 0; i < 100; i++) {
      const starts = [0, 64 * (i % 5), 512 * (i % 3)];
      const tokenIds = new Array<number>(16).fill(7);
      const context = starts.reduce((sum, start) => sum + 16 * (start + 7.5), 0);
      decide.stepRan(
        starts.map((startPosition) => ({ startPosition, tokenIds })),
        0.5 * 48 + 0.006 * context,
      );
    }
    expect(computing(decide).msPerTokenContext).toBeCloseTo(0.006, 3);
  });

  it('learns nothing from a pull that failed or is unknown, nor from a step without tokens', () => {
    const decide = policy();
    decide.started('a', ask(128));
    decide.ended('a', null);
    decide.ended('a', 1000);
    decide.stepRan([], 1000);
    const known = (costs: CostAwarePolicy) => {
      const question = ask(128, { holderRequests: 2 });
      return [costs.partsOf(question), costs.partsOf(ask(128)), computing(costs)];
    };
    expect(known(decide)).toEqual(known(policy()));
  });

  it('changes its prediction less than fourfold after one extremely slow pull', () => {
    const decide = policy();
    const before = decide.predict(ask(128)).pullMs;
    decide.started('a', ask(128));
    decide.ended('a', 10_000);
    expect(decide.predict(ask(128)).pullMs).toBeLessThan(4 * before);
  });
});

describe('choosePolicy', () => {
  const costAware = policy();
  it.each([
    [null, null, 48, '48 < threshold 64'],
    [null, null, 64, null],
    ['threshold', costAware, 48, '48 < threshold 64'],
    ['threshold', costAware, 64, null],
    [null, costAware, 64, 'cost-aware: pull ~46 ms > recompute ~32 ms'],
    ['cost-aware', null, 48, '48 < threshold 64'],
    ['always', costAware, 1, null],
    ['never', costAware, 4096, 'the request asks for recomputation'],
  ] as const)('applies the policy that pull_policy asks for: %s, %#', (asked, costs, count, reason) => {
    expect(choosePolicy(asked, 64, costs).refuse(ask(count))).toBe(reason);
  });

  it('always pulls with a threshold of 0, as vLLM does', () => {
    expect(thresholdPolicy(0).refuse(ask(1))).toBeNull();
  });
});

describe('RecursiveLeastSquares', () => {
  it('finds the true coefficients from a wrong prior', () => {
    const rls = new RecursiveLeastSquares([10, 1], [10, 1]);
    for (let i = 0; i < 80; i++) {
      const x = [1, (i * 37) % 100];
      rls.observe(x, 4 + 0.25 * x[1]!);
    }
    expect(rls.coefficients[0]).toBeCloseTo(4, 0);
    expect(rls.coefficients[1]).toBeCloseTo(0.25, 1);
  });
});

describe('a cost profile', () => {
  const here = {
    model: 'nano',
    weightDtype: 'f16',
    adapter: 'an adapter',
    link: { name: 'x', bytesPerSecond: 10e6, latencyMs: 40 },
    blockSize: 16,
    blockBytes: 16_000,
    groups: [{ kind: 'full' as const }],
    layout: 'contiguous',
  };

  it('is read back as written', () => {
    expect(parseCostProfile(JSON.stringify(profile), 'c.json')).toEqual(profile);
    expect(() => checkCostProfile(profile, here, 'c.json')).not.toThrow();
  });

  it.each([
    ['not json', 'c.json is not JSON'],
    ['{"a":1}', 'c.json is not a cost profile: create one with kvferry calibrate'],
    ['{"kvferry_cost_profile":2}', 'c.json is a cost profile of version 2: wanted version 1'],
    [JSON.stringify({ ...profile, pull: { fixed_ms: -1 } }), 'c.json cannot be used: pull.'],
  ])('is refused when it is %s', (text, message) => {
    expect(() => parseCostProfile(text, 'c.json')).toThrow(ConfigError);
    expect(() => parseCostProfile(text, 'c.json')).toThrow(message);
  });

  it('without KV cache groups counts as one full group, and is refused if groups differ', () => {
    const { kv_cache_groups: _, ...older } = profile;
    const read = parseCostProfile(JSON.stringify(older), 'c.json');
    expect(read.kv_cache_groups).toEqual([{ kind: 'full' }]);
    const groups = [{ kind: 'sliding' as const, window: 128 }, ...here.groups];
    expect(() => checkCostProfile(read, { ...here, groups }, 'c.json')).toThrow(
      'KV cache groups full instead of window 128 + full',
    );
    const hybrid = { ...profile, kv_cache_groups: groups };
    expect(() => checkCostProfile(hybrid, { ...here, groups }, 'c.json')).not.toThrow();
  });

  it('is refused for a different setup, with everything that differs', () => {
    expect(() => checkCostProfile(profile, { ...here, model: 'tiny', link: null }, 'c.json')).toThrow(
      'c.json was measured with model nano instead of tiny, modelled link 10000000 bytes/s with 40 ms instead of none',
    );
    expect(() => checkCostProfile(profile, { ...here, adapter: 'another' }, 'c.json')).toThrow(
      'adapter an adapter instead of another',
    );
  });
});
