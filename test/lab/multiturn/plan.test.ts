import { describe, expect, test } from 'vitest';
import type { ExperimentName } from '../../../src/config/bench-schema.ts';
import { parseRunConfig } from '../../../src/config/run.ts';
import {
  type ExperimentPlan,
  fitPools,
  planExperiments,
  sizeOf,
} from '../../../src/lab/multiturn/experiments.ts';
import { fitCost, fittingConversations, nextRound, predictRoundMs } from '../../../src/lab/multiturn/plan.ts';
import { asServed } from '../../../src/lab/multiturn/settings.ts';
import type { MeasuredRequest } from '../../../src/measure/summaries/bench-summary.ts';
import { generateConversations } from '../../../src/workload/generate.ts';
import { pr32553 } from '../../../src/workload/pr32553.ts';
import type { BenchConversation } from '../../../src/workload/types.ts';

const conversations = generateConversations(pr32553, {
  scale: 16,
  seed: 0,
  tokens: { kind: 'drawn', lowest: 8, highest: 4000 },
});
const config = (change: Record<string, unknown> = {}) =>
  parseRunConfig({
    model: 'tiny',
    mode: ['unidirectional', 'bidirectional', 'decode-local'],
    experiments: ['no-prefix-caching', 'prefix-caching', 'eviction'],
    numClients: 2,
    maxActiveConversations: 24,
    threshold: 4,
    ...change,
  });
const size = sizeOf(conversations, 24, 16, 128, 1);
const plans = planExperiments(config(), size, 16, false);
const cost = { turnMs: 20, prefillMsPerToken: 1.5, decodeMsPerToken: 12 };
const predictMs = (some: readonly BenchConversation[]) => predictRoundMs(some, plans, cost, 2);
const options = (leftMs: number) => ({ numClients: 2, rounds: 3, leftMs });

describe('experiments', () => {
  test('give D and P room for all active conversations, except P in the eviction experiment', () => {
    const [off, on, eviction] = plans as [ExperimentPlan, ExperimentPlan, ExperimentPlan];
    expect(off.prefixCaching).toBe(false);
    expect(on.pBlocks).toBeGreaterThan(size.activeBlocks);
    expect(eviction.pBlocks).toBeLessThan(size.activeBlocks / 2);
    expect(eviction.pBlocks).toBeGreaterThan(2 * size.longestBlocks);
    for (const { dBlocks } of plans) expect(dBlocks).toBeGreaterThan(size.activeBlocks);
  });

  test('serve decode-local and the unscaled threshold in one experiment only', () => {
    expect(plans.map(({ arms }) => arms.map(({ key }) => key))).toEqual([
      ['unidirectional', 'bidirectional'],
      ['unidirectional', 'bidirectional', 'decode_local', 'bidirectional_threshold_64'],
      ['unidirectional', 'bidirectional'],
    ]);
    expect(plans[1]!.arms.map(({ threshold }) => threshold)).toEqual([4, 4, 4, 64]);
  });

  test('add one arm with all KV kept for a model with sliding windows, and keep all others', () => {
    const windowed = planExperiments(config(), size, 16, true);
    expect(
      windowed.map(({ arms }) => arms.map(({ key, mode, allFullKv }) => [key, mode, allFullKv])),
    ).toEqual(
      plans.map(({ arms }, i) => [
        ...arms.map(({ key, mode }) => [key, mode, false]),
        ...(i === 1 ? [['bidirectional_all_full_kv', 'bidirectional', true]] : []),
      ]),
    );
    const [only] = planExperiments(config({ mode: ['unidirectional'] }), size, 16, true).slice(1);
    expect(only!.arms.at(-1)).toMatchObject({ key: 'unidirectional_all_full_kv', mode: 'unidirectional' });
  });

  test.each([
    [
      'no-prefix-caching',
      { prefill: [{}, { prefixCaching: true }], decode: 1 },
      'prefixCaching for prefill-1',
    ],
    ['eviction', { prefill: [{ blocks: 4000 }], decode: 1 }, 'blocks for prefill-0'],
  ] as const)('refuse %s if the fleet file sets what that experiment varies', (name, roleset, of) => {
    const planned = (experiments: ExperimentName[]) =>
      planExperiments(config({ fleet: { rolesets: [roleset] } as never, experiments }), size, 16, false);
    expect(() => planned(['prefix-caching', name])).toThrow(
      `--experiments has ${name}, but the --fleet file sets ${of}: remove it from the file`,
    );
    expect(planned(['prefix-caching'])).toHaveLength(1);
  });

  test("shrink P's too-small pool if there are fewer conversations", () => {
    const few = sizeOf(conversations.slice(0, 8), 24, 16, 128, 1);
    const fitted = fitPools(plans, few, 2);
    expect(fitted[2]!.pBlocks).toBeLessThan(few.activeBlocks);
    expect(fitted[0]).toBe(plans[0]);
    expect(fitted[2]!.arms).toBe(plans[2]!.arms);
    expect(fitted[2]).toMatchObject({ roomy: false, title: plans[2]!.title });
  });

  test('call a pool small, not too small, if there are only as many conversations as clients', () => {
    const two = sizeOf(conversations.slice(0, 2), 24, 16, 128, 1);
    const ways = planExperiments(config({ paths: ['recompute', 'pull'] }), size, 16, false, [null]);
    const titles = [plans, ways].map((all) => fitPools(all, two, 2).at(-1));
    expect(plans[2]!.title).toBe("P's pool is too small for all active conversations");
    expect(titles).toMatchObject([
      { roomy: true, title: "P's pool is small, but has room for all active conversations" },
      {
        roomy: true,
        title: "both pools are small, but have room for all active conversations; memory's speed",
      },
    ]);
    const one = fitPools(plans, two, 1)[2]!;
    expect(one).toMatchObject({ roomy: false, title: plans[2]!.title });
  });
});

describe('asServed()', () => {
  const served = (change: Record<string, unknown>) => asServed(conversations, config(change));
  const outputs = (change: Record<string, unknown>) =>
    new Set(served(change).flatMap(({ turns }) => turns.map(({ outputTokens }) => outputTokens)));

  test('applies the token limit, or --max-tokens if there is none, and the limit of turns', () => {
    expect(served({})).toEqual(conversations);
    expect(outputs({ limitMinTokens: 100, limitMaxTokens: 200 })).toEqual(new Set([200]));
    expect(outputs({ limitMinTokens: -1, limitMaxTokens: -1, maxTokens: 77 })).toEqual(new Set([77]));
    expect(served({ maxTurns: 3 }).every(({ turns }) => turns.length === 2)).toBe(true);
  });
});

describe('a time budget', () => {
  const request = (computed: number, ttftMs: number): MeasuredRequest =>
    ({ sample: { computed_tokens: computed, ttft_ms: ttftMs, tpot_ms: 12 } }) as MeasuredRequest;

  test('is planned with costs fitted to measured requests', () => {
    const fitted = fitCost([request(300, 470), request(10, 35), request(100, 170)]);
    expect(fitted.prefillMsPerToken).toBeCloseTo(1.5);
    expect(fitted.turnMs).toBeCloseTo(20);
    expect(fitted.decodeMsPerToken).toBe(12);
    expect(fitCost([request(100, 150), request(100, 150)])).toMatchObject({
      prefillMsPerToken: 1.5,
      turnMs: 0,
    });
  });

  test('fits more conversations the longer it is, with a predicted time within it', () => {
    const counts = [100, 300, 600, 1200, 3600].map((seconds) => {
      const chosen = fittingConversations(conversations, predictMs, options(seconds * 1000));
      if (chosen.length > 2)
        expect(3 * predictRoundMs(chosen, plans, cost, 2)).toBeLessThanOrEqual(seconds * 1000);
      return chosen.length;
    });
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    expect(counts[0]).toBeLessThan(counts[2]!);
    expect(counts.at(-1)).toBe(24);
  });

  test('cuts conversations and turns step by step, down to two conversations of two turns', () => {
    const shape = (leftMs: number) => {
      const chosen = fittingConversations(conversations, predictMs, options(leftMs));
      return { count: chosen.length, turns: Math.max(...chosen.map((each) => each.turns.length)) };
    };
    expect(shape(1)).toEqual({ count: 2, turns: 2 });
    expect(shape(1e9)).toEqual({ count: 24, turns: 9 });
    const shapes = Array.from({ length: 60 }, (_, i) => shape(20_000 * (i + 1)));
    for (const { count, turns } of shapes) {
      if (count > 6) expect(turns).toBe(9);
      if (count < 6) expect(turns).toBeLessThanOrEqual(6);
      if (count < 4) expect(turns).toBeLessThanOrEqual(4);
    }
    const sizes = shapes.map(({ count, turns }) => count * turns);
    expect(sizes).toEqual(sizes.toSorted((a, b) => a - b));
    expect(new Set(sizes).size).toBeGreaterThan(10);
  });

  test('cuts a workload of 200,000 conversations without predicting every number of them', () => {
    const { turns } = conversations[0]!;
    const many = Array.from({ length: 200_000 }, (_, i) => ({ id: `${i}`, turns }));
    let predicted = 0;
    const predictMs = (some: readonly BenchConversation[]): number => {
      predicted += some.length;
      if (predicted > 10 * many.length) throw new Error(`still ${some.length} conversations`);
      return some.length;
    };
    expect(fittingConversations(many, predictMs, options(1))).toHaveLength(2);
    predicted = 0;
    expect(fittingConversations(many, predictMs, options(3 * 1000))).toHaveLength(850);
  });

  test('is planned with more time for recomputing than for pulling', () => {
    const only = (key: string) => [{ ...plans[0]!, arms: plans[0]!.arms.filter((arm) => arm.key === key) }];
    const without = predictRoundMs(conversations, only('unidirectional'), cost, 2);
    expect(without).toBeGreaterThan(predictRoundMs(conversations, only('bidirectional'), cost, 2));
  });
});

describe('the next round', () => {
  const state = {
    roundsMs: [100],
    leftMs: 1000,
    conversations: 10,
    leastConversations: 2,
    rounds: Number.POSITIVE_INFINITY,
  };

  test('is served while there is time', () => {
    expect(nextRound(state)).toEqual({ kind: 'go', conversations: 10 });
    expect(nextRound({ ...state, roundsMs: [100, 100, 100], leftMs: 200 })).toEqual({
      kind: 'go',
      conversations: 10,
    });
  });

  test('is not served after three rounds if it would not fit', () => {
    expect(nextRound({ ...state, roundsMs: [100, 90, 80], leftMs: 105 })).toEqual({ kind: 'end' });
  });

  test('has fewer conversations if three rounds would not fit otherwise', () => {
    expect(nextRound({ ...state, leftMs: 108 })).toEqual({ kind: 'go', conversations: 5 });
    expect(nextRound({ ...state, leftMs: 20 })).toEqual({ kind: 'end' });
    // Two more do not fit, however few conversations; one does.
    expect(nextRound({ ...state, conversations: 2, leftMs: 150 })).toEqual({ kind: 'go', conversations: 2 });
  });
});
