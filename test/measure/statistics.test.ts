import { describe, expect, test } from 'vitest';
import type { RunReport, TurnReport } from '../../src/measure/schemas/report.ts';
import { quantile, summarise } from '../../src/measure/statistics.ts';
import { compareRuns, LogitKeeper } from '../../src/measure/summaries/comparison.ts';
import { summariseRun } from '../../src/measure/summaries/summary.ts';
import { distribution } from '../../src/report/html/distribution.ts';
import { turnReport } from './turns.ts';

test('more samples than a call takes arguments can be summarised and drawn', () => {
  const many = Array.from({ length: 200_000 }, (_, i) => i);
  expect(summarise(many)).toMatchObject({ mean: 99_999.5, p50: 99_999.5, max: 199_999 });
  const drawn = distribution({
    kind: 'distribution',
    title: 'TTFT',
    unit: 'ms',
    series: [{ name: 'one', values: many }],
  });
  expect(JSON.stringify(drawn)).toContain('median');
});

describe('quantiles', () => {
  // pandas, DataFrame.quantile's documentation: a = [1, 2, 3, 4], b = [1, 10, 100, 100].
  test('have the values that pandas documents', () => {
    expect(quantile([1, 2, 3, 4], 0.1)).toBeCloseTo(1.3, 12);
    expect(quantile([1, 10, 100, 100], 0.1)).toBeCloseTo(3.7, 12);
    expect(quantile([4, 2, 1, 3], 0.5)).toBeCloseTo(2.5, 12);
    expect(quantile([100, 10, 1, 100], 0.5)).toBeCloseTo(55, 12);
  });

  // biome-ignore format: data
  const samples = [
    100.229, 53.827, 186.962, 150.729, 38.999, 184.469, 23.54, 44.197, 30.104, 22.359, 201.476, 73.689, 20.602, 203.491, 199.46,
    304.084, 24.097, 55.816, 19.02, 130.468, 15.748, 159.185, 37.221, 58.279, 57.928, 53.612, 43.816, 67.644, 149.613, 122.118,
    89.751, 69.878, 22.745, 164.323, 65.589, 63.439, 55.463,
  ];
  // Python's statistics.quantiles(samples, n=20, method='inclusive'): the same linear interpolation.
  // biome-ignore format: data
  const twentieths = [
    20.2856, 22.5906, 23.7628, 31.5274, 38.999, 44.1208, 53.741, 55.6042, 57.9982, 63.439, 67.233, 72.1646, 93.9422, 123.788,
    149.613, 157.4938, 176.4106, 191.9612, 201.879,
  ];

  test.each(twentieths.map((value, i) => [(i + 1) / 20, value]))(
    "match Python's statistics.quantiles at %f",
    (q, value) => {
      expect(quantile(samples, q)).toBeCloseTo(value, 9);
    },
  );

  test('are defined at 0 and 1 and for one sample, and throw for none', () => {
    expect(quantile(samples, 0)).toBe(15.748);
    expect(quantile(samples, 1)).toBe(304.084);
    expect(quantile([7], 0.9)).toBe(7);
    expect(summarise([])).toBeNull();
    expect(() => quantile([], 0.5)).toThrow(RangeError);
    expect(summarise([1, 2, 3, 6])).toEqual({ mean: 3, p50: 2.5, p90: expect.closeTo(5.1, 12), max: 6 });
  });
});

const run = (mode: RunReport['mode'], turns: TurnReport[]): RunReport =>
  summariseRun(mode, turns, { firstUseCompilations: 0, preemptions: 0, wallMs: 1 });

describe('a summary', () => {
  test('separates first turns from later ones and adds up tokens', () => {
    const { summary } = run('bidirectional', [
      turnReport({ ttft_ms: 100 }),
      turnReport({ turn: 2, ttft_ms: 10, pulled_tokens: 6, computed_tokens: 4 }),
      turnReport({ turn: 3, ttft_ms: 30, tpot_ms: null }),
    ]);
    expect(summary.ttft_first_turn_ms?.mean).toBe(100);
    expect(summary.ttft_later_turns_ms).toEqual({ mean: 20, p50: 20, p90: expect.closeTo(28), max: 30 });
    expect(summary.tpot_ms).toEqual({ mean: 2, p50: 2, p90: 2, max: 2 });
    expect(summary).toMatchObject({
      prompt_tokens: 30,
      pulled_tokens: 6,
      computed_tokens: 24,
      output_tokens: 9,
    });
  });
});

test('bytes from a store are those that P and D loaded', () => {
  const noTransfer = turnReport().transfer.p_to_d;
  const transfer = {
    ...turnReport().transfer,
    store_to_p: { ...noTransfer, bytes: 100 },
    store_to_d: { ...noTransfer, bytes: 30 },
  };
  const { summary } = summariseRun('bidirectional', [turnReport({ transfer }), turnReport()], {
    ...{ firstUseCompilations: 0, preemptions: 0, wallMs: 1 },
    store: { savedBytes: 7, twoHopBytes: 5 },
  });
  expect(summary).toMatchObject({ bytes_from_store: 130, bytes_to_store: 7, two_hop_bytes: 5 });
});

describe('a comparison', () => {
  const same = [turnReport(), turnReport({ turn: 2 })];

  test('is null for one run', () => {
    expect(compareRuns([run('monolithic', same)], null)).toBeNull();
  });

  test('of equal runs finds no difference', () => {
    expect(compareRuns([run('monolithic', same), run('unidirectional', same)], null)).toMatchObject({
      tokens_identical: true,
      logits_identical: true,
      max_logit_difference: 0,
      first_disagreement: null,
      compared_tokens: 6,
      ttft_speedup: null,
    });
  });

  test('names the first token that differs', () => {
    const other = [turnReport(), turnReport({ turn: 2, output_token_ids: [5, 9, 7] })];
    expect(compareRuns([run('monolithic', same), run('bidirectional', other)], 0.5)).toMatchObject({
      tokens_identical: false,
      logits_identical: false,
      max_logit_difference: 0.5,
      first_disagreement: {
        mode: 'bidirectional',
        conversation_id: 'c1',
        turn: 2,
        token_index: 1,
        what: 'token',
      },
    });
  });

  test('counts equal tokens from different logits as a disagreement', () => {
    const other = [
      turnReport({ logits_digests: ['digest-5', 'digest-6', 'other'] }),
      turnReport({ turn: 2 }),
    ];
    expect(compareRuns([run('monolithic', same), run('bidirectional', other)], null)).toMatchObject({
      tokens_identical: true,
      logits_identical: false,
      max_logit_difference: null,
      first_disagreement: { turn: 1, token_index: 2, what: 'logits' },
    });
  });

  test('reports both different tokens and logits that differ earlier', () => {
    const other = [
      turnReport({ output_token_ids: [5, 6, 8], logits_digests: ['x', 'x', 'x'] }),
      turnReport({ turn: 2 }),
    ];
    expect(compareRuns([run('monolithic', same), run('bidirectional', other)], null)).toMatchObject({
      tokens_identical: false,
      first_disagreement: { token_index: 0, what: 'logits' },
    });
  });

  test('counts a missing turn, an extra turn and a shorter answer as differences', () => {
    const reference = run('monolithic', same);
    expect(compareRuns([reference, run('bidirectional', [turnReport()])], null)?.tokens_identical).toBe(
      false,
    );
    expect(
      compareRuns([reference, run('bidirectional', [...same, turnReport({ turn: 3 })])], null)
        ?.tokens_identical,
    ).toBe(false);
    const shorter = [turnReport({ output_token_ids: [5, 6] }), turnReport({ turn: 2 })];
    expect(compareRuns([reference, run('bidirectional', shorter)], null)?.first_disagreement).toMatchObject({
      token_index: 2,
      what: 'length',
    });
  });

  test('gives the speed-up of pulling over recomputing, and the tokens saved', () => {
    const slow = [turnReport(), turnReport({ turn: 2, ttft_ms: 30 }), turnReport({ turn: 3, ttft_ms: 50 })];
    const fast = [
      turnReport(),
      turnReport({ turn: 2, ttft_ms: 10, pulled_tokens: 8, computed_tokens: 2 }),
      turnReport({ turn: 3, ttft_ms: 15 }),
    ];
    expect(compareRuns([run('unidirectional', slow), run('bidirectional', fast)], null)).toMatchObject({
      ttft_speedup: { mean: 40 / 12.5, p50: 40 / 12.5 },
      computed_tokens_saved: 8,
    });
  });
});

describe('kept logits', () => {
  const row = (...values: number[]): Float32Array => Float32Array.from(values);

  test('give the largest difference up to the first token that differs', () => {
    const keeper = new LogitKeeper();
    expect(keeper.maxDifference).toBeNull();
    keeper.add('a', 'c', 1, 0, 5, row(1, 2));
    keeper.add('a', 'c', 1, 1, 6, row(1, 2));
    keeper.add('a', 'c', 1, 2, 7, row(1, 2));
    expect(keeper.maxDifference).toBeNull();
    keeper.add('b', 'c', 1, 0, 5, row(1, 2.25));
    expect(keeper.maxDifference).toBe(0.25);
    keeper.add('b', 'c', 1, 1, 9, row(1.5, 2));
    expect(keeper.maxDifference).toBe(0.5);
    keeper.add('b', 'c', 1, 2, 7, row(100, 2));
    expect(keeper.maxDifference).toBe(0.5);
  });

  test('count NaN as the largest difference', () => {
    const keeper = new LogitKeeper();
    keeper.add('a', 'c', 1, 0, 5, row(1));
    keeper.add('b', 'c', 1, 0, 5, row(Number.NaN));
    expect(keeper.maxDifference).toBe(Number.MAX_VALUE);
  });
});
