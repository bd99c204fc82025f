import { describe, expect, it } from 'vitest';
import { checkCostProfile, costProfileSchema, parseCostProfile } from '../../src/config/cost-profile.ts';
import { CostAwarePolicy } from '../../src/connector/policy/cost-aware.ts';
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

describe('the cost-aware policy', () => {
  it('pulls what is predicted to arrive before it was computed, and says why not otherwise', () => {
    const decide = policy();
    expect(decide.refuse(ask(64))).toBe('cost-aware: pull ~46 ms > recompute ~32 ms');
    expect(decide.refuse(ask(128))).toBeNull();
    expect(decide.predict(ask(96))).toEqual({ pullMs: 40 + 9.6, recomputeMs: 48 });
  });

  it('counts whole blocks, a partly filled first one too', () => {
    // Tokens 24 to 40 lie in blocks 1 and 2.
    expect(policy().predict(ask(16, { localHitTokens: 24 })).pullMs).toBeCloseTo(40 + 3.2, 9);
  });

  it('counts what it already reads over the same link', () => {
    const decide = policy();
    expect(decide.refuse(ask(128))).toBeNull();
    decide.started('a', ask(512));
    expect(decide.predict(ask(128)).pullMs).toBeCloseTo(40 + 64, 9);
    expect(decide.refuse(ask(128))).not.toBeNull();
    decide.ended('a', null);
    expect(decide.refuse(ask(128))).toBeNull();
  });

  it('learns that pulls take longer, and that they take longer while the holder is busy', () => {
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
    expect(busy.costs().transfer.msPerHolderRequest).toBeCloseTo(20, -1);
    expect(busy.refuse(ask(128))).toBeNull();
    expect(busy.refuse(ask(128, { holderRequests: 3 }))).not.toBeNull();
  });

  it('learns from the steps that it runs what computing costs', () => {
    const decide = policy();
    expect(decide.refuse(ask(64))).not.toBeNull();
    for (let i = 0; i < 60; i++) {
      const tokens = [17, 80, 200, 256][i % 4]!;
      decide.stepRan([{ startPosition: 0, tokenIds: new Array<number>(tokens).fill(7) }], 2 + 1.5 * tokens);
    }
    expect(Math.abs(decide.costs().prefill.msPerToken / 1.5 - 1)).toBeLessThan(0.1);
    expect(decide.refuse(ask(64))).toBeNull();
  });

  it('is not carried away by one pause of the machine', () => {
    const decide = policy();
    const before = decide.predict(ask(128)).pullMs;
    decide.started('a', ask(128));
    decide.ended('a', 10_000);
    expect(decide.predict(ask(128)).pullMs).toBeLessThan(4 * before);
  });
});

describe('which policy decides', () => {
  const costAware = policy();
  it.each([
    [null, null, 48, '48 < threshold 64'],
    [null, null, 64, null],
    ['threshold', costAware, 48, '48 < threshold 64'],
    ['threshold', costAware, 64, null],
    [null, costAware, 64, 'cost-aware: pull ~46 ms > recompute ~32 ms'],
    ['cost-aware', null, 48, '48 < threshold 64'],
    ['always', costAware, 1, null],
    ['never', costAware, 4096, 'the request asks for computing it'],
  ] as const)('%s, %#', (asked, costs, count, reason) => {
    expect(choosePolicy(asked, 64, costs).refuse(ask(count))).toBe(reason);
  });

  it('keeps vLLM’s meaning of a threshold of 0', () => {
    expect(thresholdPolicy(0).refuse(ask(1))).toBeNull();
  });
});

describe('RecursiveLeastSquares', () => {
  it('finds coefficients from a wrong prior', () => {
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

  it('is read back as it was written', () => {
    expect(parseCostProfile(JSON.stringify(profile), 'c.json')).toEqual(profile);
    expect(() => checkCostProfile(profile, here, 'c.json')).not.toThrow();
  });

  it.each([
    ['not json', 'c.json is no JSON'],
    ['{"a":1}', 'c.json is no cost profile: make one with kvferry calibrate'],
    ['{"kvferry_cost_profile":2}', 'c.json is a cost profile of version 2, and 1 is known'],
    [JSON.stringify({ ...profile, pull: { fixed_ms: -1 } }), 'c.json cannot be used: pull.'],
  ])('is refused when it is %s', (text, message) => {
    expect(() => parseCostProfile(text, 'c.json')).toThrow(ConfigError);
    expect(() => parseCostProfile(text, 'c.json')).toThrow(message);
  });

  it('is of one group that keeps everything where it names none, and refused where windows differ', () => {
    const { kv_cache_groups: _, ...older } = profile;
    const read = parseCostProfile(JSON.stringify(older), 'c.json');
    expect(read.kv_cache_groups).toEqual([{ kind: 'full' }]);
    const groups = [{ kind: 'sliding' as const, window: 128 }, ...here.groups];
    expect(() => checkCostProfile(read, { ...here, groups }, 'c.json')).toThrow(
      'KV cache groups full and not window 128 + full',
    );
    const hybrid = { ...profile, kv_cache_groups: groups };
    expect(() => checkCostProfile(hybrid, { ...here, groups }, 'c.json')).not.toThrow();
  });

  it('is refused elsewhere, with everything that differs', () => {
    expect(() => checkCostProfile(profile, { ...here, model: 'tiny', link: null }, 'c.json')).toThrow(
      'c.json was measured with model nano and not tiny, link 10000000 bytes/s with 40 ms and not no modelled link',
    );
    expect(() => checkCostProfile(profile, { ...here, adapter: 'another' }, 'c.json')).toThrow(
      'adapter an adapter and not another',
    );
  });
});
