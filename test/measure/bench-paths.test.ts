import { describe, expect, test } from 'vitest';
import {
  byLength,
  type CarriedKv,
  laterTtfts,
  medianOf,
  regretOf,
  summarisePath,
} from '../../src/measure/summaries/bench-paths.ts';
import type { MeasuredRequest } from '../../src/measure/summaries/bench-summary.ts';
import { Random } from '../../src/workload/random.ts';

const options = (seed = 1) => {
  const random = new Random(seed);
  return { resamples: 400, confidence: 0.95, random: () => random.float(), seed };
};

const request = (
  round: number,
  id: number,
  turn: number,
  tokens: number,
  ttftMs: number,
): MeasuredRequest => ({
  sample: {
    ...{ round, conversation_id: `c${id}`, turn, client: 0, start_ms: 0, ttft_ms: ttftMs, tpot_ms: 5 },
    ...{ latency_ms: 100, input_num_turns: turn, input_num_tokens: tokens, output_num_tokens: 3 },
    ...{
      output_num_chunks: 2,
      local_hit_tokens: 0,
      pulled_tokens: 0,
      computed_tokens: tokens,
      stages_ms: {},
    },
  },
  ...{ gapsMs: [], output: [1], bytesPToD: 100, bytesDToP: 40 },
});

/** Three rounds of ten conversations of four turns; TTFT by prompt length. */
const served = (ttft: (tokens: number) => number, first = 500): MeasuredRequest[] =>
  [1, 2, 3].flatMap((round) =>
    Array.from({ length: 10 }, (_, id) =>
      [1, 2, 3, 4].map((turn) => {
        const tokens = 100 * turn + id;
        return request(round, id, turn, tokens, turn === 1 ? first : ttft(tokens) + round);
      }),
    ).flat(),
  );

describe('comparing ways by prompt length', () => {
  const ways = [
    { mode: 'recompute', requests: served((tokens) => tokens) },
    { mode: 'pull', requests: served((tokens) => 250 + tokens / 100) },
    { mode: 'store', requests: served((tokens) => 300 + tokens / 100) },
  ];

  test('gives each length its winner, the margin over the next, and whether it is sure', () => {
    const classes = byLength(ways, options());
    expect(classes.map(({ from_tokens, to_tokens, requests }) => [from_tokens, to_tokens, requests])).toEqual(
      [
        [200, 209, 10],
        [300, 309, 10],
        [400, 409, 10],
      ],
    );
    expect(classes.map(({ best }) => best)).toEqual(['recompute', 'pull', 'pull']);
    expect(classes.map(({ ahead_of }) => ahead_of!.way)).toEqual(['pull', 'store', 'store']);
    expect(classes.every(({ sure }) => sure)).toBe(true);
    const { pull, recompute } = classes[2]!.ways;
    expect(recompute!.times_faster).toBeNull();
    expect(recompute!.ttft_ms.value).toBeCloseTo(406.5, 5);
    // 406.5 against 250 + 4.045 + 2.
    expect(pull!.times_faster!.value).toBeCloseTo(406.5 / 256.045, 3);
    expect(pull!.times_faster!.low).toBeLessThanOrEqual(pull!.times_faster!.value);
    expect(pull!.times_faster!.high).toBeGreaterThanOrEqual(pull!.times_faster!.value);
  });

  test('leaves out first turns and requests that one way did not answer', () => {
    const few = ways.map(({ mode, requests }, i) => ({
      mode,
      requests: requests.filter(
        ({ sample }) => i > 0 || sample.conversation_id !== 'c0' || sample.turn !== 4,
      ),
    }));
    expect(byLength(few, options()).reduce((sum, { requests }) => sum + requests, 0)).toBe(29);
    expect([...laterTtfts(ways[0]!.requests).values()].flat()).not.toContain(500);
  });

  test('puts a handful of requests into one class, whose winner is not sure', () => {
    const few = ways.map(({ mode, requests }) => ({
      mode,
      requests: requests.filter(({ sample }) => sample.conversation_id === 'c1'),
    }));
    const classes = byLength(few, options());
    expect(classes).toHaveLength(1);
    expect(classes[0]).toMatchObject({ requests: 3, sure: false });
    expect(byLength([{ mode: 'pull', requests: [] }], options())).toEqual([]);
  });

  test('is not sure of a winner if the difference is only noise', () => {
    const random = new Random(3);
    const noisy = () => served(() => 200 + 100 * random.float());
    const classes = byLength(
      [
        { mode: 'a', requests: noisy() },
        { mode: 'b', requests: noisy() },
      ],
      options(),
    );
    expect(classes.filter(({ sure }) => sure)).toEqual([]);
  });
});

test("a way's regret is the mean time per request that it lost to the best way", () => {
  const short = (tokens: number) => (tokens < 300 ? 100 : 300);
  const long = (tokens: number) => (tokens < 300 ? 200 : 150);
  const lost = regretOf([
    { mode: 'short', requests: served(short) },
    { mode: 'long', requests: served(long) },
    { mode: 'chooses', requests: served((tokens) => Math.min(short(tokens), long(tokens))) },
  ]);
  expect(lost.chooses).toEqual({ regret_ms: 0, share: 0 });
  // Medians of three rounds are 2 ms more: of 30 requests 10 are short.
  expect(lost.long!.regret_ms).toBeCloseTo(100 / 3, 9);
  expect(lost.short!.share).toBeCloseTo((20 * 150) / (10 * 102 + 20 * 152), 9);
  expect(regretOf([{ mode: 'a', requests: [] }])).toEqual({ a: { regret_ms: 0, share: 0 } });
});

test('a median lies within its interval, and has no interval if all times are equal', () => {
  const spread = medianOf(
    [
      [1, 2, 3],
      [4, 5, 6],
      [7, 8, 9],
      [2, 4, 8],
      [1, 5, 9],
    ],
    options(),
  );
  expect(spread.value).toBe(5);
  expect(spread.low).toBeLessThan(5);
  expect(spread.high).toBeGreaterThan(5);
  expect(medianOf([[7, 7], [7]], options())).toEqual({ value: 7, low: null, high: null });
});

test("bytes and held blocks are means over rounds, and the store's memory is the maximum", () => {
  const carried = (scale: number): CarriedKv => ({
    ...{ storeToP: 10 * scale, storeToD: 20 * scale, pToStore: 30 * scale, dToStore: 40 * scale },
    ...{ twoHops: 5 * scale, savingBlockMs: 6000 * scale, storeBytes: 100 * scale, storeCapacity: 900 },
    ...{ pBlocks: 10, dBlocks: 20 },
  });
  const requests = [request(1, 1, 2, 10, 1), request(1, 2, 2, 10, 1), request(2, 1, 2, 10, 1)];
  const path = summarisePath({
    ...{ name: 'both', requests, blockBytes: 8, heldForPMs: 3000, heldForDMs: 500 },
    carried: [carried(1), carried(3)],
  });
  expect(path.bytes).toEqual({
    ...{
      p_to_d: 150,
      d_to_p: 60,
      store_to_p: 20,
      store_to_d: 40,
      p_to_store: 60,
      d_to_store: 80,
      two_hops: 10,
    },
  });
  expect(path.memory).toEqual({
    ...{ p_pool_bytes: 80, d_pool_bytes: 160, store_bytes: 300, store_capacity_bytes: 900 },
  });
  expect(path.held_block_seconds).toEqual({ on_d_for_p: 1.5, on_p_for_d: 0.25, saving: 12 });
});
