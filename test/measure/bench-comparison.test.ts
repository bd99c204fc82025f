import { describe, expect, test } from 'vitest';
import { benchModeSchema } from '../../src/measure/schemas/bench-mode-schema.ts';
import { pairSchema } from '../../src/measure/schemas/bench-report.ts';
import { describeSamples } from '../../src/measure/statistics.ts';
import { comparePair, compareTokens, ratios } from '../../src/measure/summaries/bench-comparison.ts';
import { type MeasuredRequest, summariseMode } from '../../src/measure/summaries/bench-summary.ts';
import { Random } from '../../src/workload/random.ts';

const request = (
  place: { round?: number; id?: string; turn?: number },
  ttftMs: number,
  change: Partial<MeasuredRequest> = {},
): MeasuredRequest => ({
  sample: {
    round: place.round ?? 1,
    conversation_id: place.id ?? 'a',
    turn: place.turn ?? 1,
    client: 0,
    start_ms: 10 * (place.turn ?? 1),
    ttft_ms: ttftMs,
    tpot_ms: 5,
    latency_ms: ttftMs + 10,
    input_num_turns: 1,
    input_num_tokens: 100,
    output_num_tokens: 3,
    output_num_chunks: 2,
    local_hit_tokens: 0,
    pulled_tokens: 60,
    computed_tokens: 40,
    stages_ms: { prefill: ttftMs },
  },
  gapsMs: [4, 6],
  output: [1, 2, 3],
  bytesPToD: 10,
  bytesDToP: 20,
  ...change,
});

const facts = {
  mode: 'bidirectional',
  label: 'bidirectional',
  threshold: 4,
  runtimeMs: 2000,
  errors: new Map([['no room', 2]]),
  blockBytes: 1000,
  heldForP: { blockMs: 4000, peakBlocks: 9, overMs: 2000 },
  heldForD: null,
  peakKvBytes: null,
  preemptions: 0,
  notPulled: null,
  firstUseCompilations: 0,
  warmupPercentages: [0, 50],
};

const options = (seed = 1) => {
  const random = new Random(seed);
  return { resamples: 500, confidence: 0.95, random: () => random.float(), seed };
};

describe('describeSamples', () => {
  // NumPy: np.percentile(x, [25, 50, 75, 90]), np.std(x, ddof=1), np.mean(x); pandas' describe() uses the same functions.
  test("gives what pandas' describe() gives", () => {
    const described = describeSamples([412.7, 88.1, 93.6, 1250.2, 301.5, 77.9, 640.3])!;
    const expected = {
      mean: 409.1857142857143,
      std: 425.1995626705631,
      p25: 90.85,
      p50: 301.5,
      p75: 526.5,
      p90: 884.26,
    };
    for (const [key, value] of Object.entries(expected))
      expect(described[key as keyof typeof expected]).toBeCloseTo(value, 9);
    expect(described).toMatchObject({ count: 7, min: 77.9, max: 1250.2, p99: null });
  });

  test('gives p99 only from 100 samples on, and no standard deviation for one sample', () => {
    expect(describeSamples(Array.from({ length: 100 }, (_, i) => i))?.p99).toBeCloseTo(98.01, 9);
    expect(describeSamples([7])).toMatchObject({ std: null, p50: 7 });
    expect(describeSamples([])).toBeNull();
  });
});

describe("a mode's summary", () => {
  test('adds up its requests and fits the schema', () => {
    const mode = summariseMode([request({}, 10), request({ turn: 2 }, 30)], facts)!;
    expect(benchModeSchema.parse(mode)).toEqual(mode);
    expect(mode).toMatchObject({
      requests: 2,
      failed_requests: 2,
      pulled_tokens: 120,
      output_tokens: 6,
      output_tokens_per_second: 3,
      bytes_d_to_p: 40,
      stages_ms: { prefill: 20 },
      held_for_p: { mean_blocks: 2, peak_blocks: 9, block_seconds: 4, byte_seconds: 4000 },
      held_for_d: null,
      itl_ms: { count: 4, mean: 5, max: 6 },
    });
    expect(mode.table.ttft_ms.mean).toBe(20);
    expect(mode.warmup_tables.map(({ table }) => table.ttft_ms.mean)).toEqual([30]);
  });

  test('has no sum if one part is unknown, and is null without requests', () => {
    const known = request({}, 10);
    const mode = summariseMode(
      [known, { ...known, sample: { ...known.sample, pulled_tokens: null } }],
      facts,
    );
    expect(mode?.pulled_tokens).toBeNull();
    expect(summariseMode([], facts)).toBeNull();
  });
});

describe('comparing two modes', () => {
  const grid = (ttft: (turn: number, round: number) => number) =>
    [1, 2].flatMap((round) =>
      Array.from({ length: 40 }, (_, i) => request({ round, turn: i + 1 }, ttft(i + 1, round))),
    );

  test('gives a ratio of 2 with an interval of no width if every time is halved', () => {
    const pair = comparePair(
      { mode: 'unidirectional', requests: grid((turn) => 20 * turn) },
      { mode: 'bidirectional', requests: grid((turn) => 10 * turn) },
      options(),
    )!;
    expect(pairSchema.parse(pair)).toEqual(pair);
    for (const name of ['mean', 'p50', 'p90'] as const) {
      expect(pair.ttft_ms[name].ratio).toBeCloseTo(2);
      expect(pair.ttft_ms[name].low).toBeCloseTo(2);
      expect(pair.ttft_ms[name].high).toBeCloseTo(2);
    }
    expect(pair.requests).toBe(80);
    expect(pair.ttft_later_turns_ms?.mean.candidate).toBe((10 * (41 * 20 - 1)) / 39);
    expect(pair.computed_tokens_saved).toBe(0);
  });

  test('leaves out requests that only one mode answered', () => {
    const one = { mode: 'a', requests: [request({ turn: 1 }, 10), request({ turn: 2 }, 50)] };
    const other = { mode: 'b', requests: [request({ turn: 2 }, 25), request({ turn: 3 }, 1)] };
    const pair = comparePair(one, other, options())!;
    expect(pair.requests).toBe(1);
    expect(pair.ttft_ms.mean.ratio).toBe(2);
    expect(comparePair(one, { mode: 'c', requests: [] }, options())).toBeNull();
  });

  test('gives no interval for fewer than 5 requests, however often they were served', () => {
    const rounds = [
      [100, 110],
      [120, 80],
      [90, 130],
    ] as const;
    const of = (requests: number) => ratios(Array(requests).fill(rounds), options());
    expect(of(1).mean.ratio).toBeCloseTo(310 / 320);
    expect(of(1).mean).toMatchObject({ low: null, high: null });
    expect(of(4).p50).toMatchObject({ low: null, high: null });
    expect(of(5).mean.low).not.toBeNull();
  });

  test('gives intervals that contain the true ratio about as often as they claim', () => {
    // Independent exponential times of means 200 and 100; the true ratio of means is 2.
    const random = new Random(11);
    let held = 0;
    for (let run = 0; run < 100; run++) {
      const groups = Array.from({ length: 80 }, () => [
        [random.exponential(200), random.exponential(100)] as const,
      ]);
      const { mean } = ratios(groups, { ...options(run), resamples: 200 });
      if (mean.low! <= 2 && 2 <= mean.high!) held++;
    }
    expect(held).toBeGreaterThan(86);
    expect(held).toBeLessThanOrEqual(100);
  });

  test('gives intervals that depend on the seed alone', () => {
    const sides = [grid((turn) => 20 + (turn % 7)), grid((turn) => 9 + (turn % 5))] as const;
    const compare = (seed: number) =>
      comparePair({ mode: 'a', requests: sides[0] }, { mode: 'b', requests: sides[1] }, options(seed));
    expect(compare(1)).toEqual(compare(1));
    expect(compare(1)?.ttft_ms.mean.low).not.toBe(compare(2)?.ttft_ms.mean.low);
  });
});

describe('tokens of the modes', () => {
  test('are compared request by request', () => {
    const right = { mode: 'a', requests: [request({}, 1), request({ turn: 2 }, 1)] };
    expect(compareTokens([right, { ...right, mode: 'b' }])).toEqual({
      tokens_identical: true,
      first_difference: null,
    });
    const wrong = { mode: 'b', requests: [request({ turn: 2, round: 3 }, 1, { output: [1, 2, 4] })] };
    expect(compareTokens([right, wrong])).toEqual({
      tokens_identical: false,
      first_difference: { mode: 'b', round: 3, conversation_id: 'a', turn: 2, token_index: 2 },
    });
    const short = { mode: 'b', requests: [request({ turn: 2 }, 1, { output: [1, 2] })] };
    expect(compareTokens([right, short]).first_difference?.token_index).toBe(2);
  });
});
