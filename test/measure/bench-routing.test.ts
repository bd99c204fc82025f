import { expect, test } from 'vitest';
import { benchRoutingSchema } from '../../src/measure/schemas/bench-routing-schema.ts';
import { routingOf } from '../../src/measure/summaries/bench-routing.ts';
import type { MeasuredRequest } from '../../src/measure/summaries/bench-summary.ts';

const request = (
  conversation_id: string,
  turn: number,
  [prefill, decode, load]: [string | null, string, string | null],
  [computed, output, ttft, tpot]: [number, number, number, number],
): MeasuredRequest => ({
  sample: {
    round: 1,
    conversation_id,
    turn,
    client: 0,
    start_ms: 0,
    ttft_ms: ttft,
    tpot_ms: tpot,
    latency_ms: ttft,
    input_num_turns: 1,
    input_num_tokens: computed,
    output_num_tokens: output,
    output_num_chunks: output - 1,
    local_hit_tokens: 0,
    pulled_tokens: 0,
    computed_tokens: computed,
    stages_ms: {},
  },
  gapsMs: [],
  output: [],
  bytesPToD: prefill === null ? 0 : 100,
  bytesDToP: load === null ? 0 : 30,
  routed: { prefill, decode, load },
});
const facts = {
  policy: 'random',
  prefill: ['p0', 'p1'],
  decode: ['d0', 'd1'],
  sloTtftMs: null,
  sloTpotMs: null,
  failed: 0,
  runtimeMs: 2000,
};

test('routing figures give tokens by engine, bytes by edge, and the turns that moved', () => {
  const made = routingOf(
    [
      // Out of order: turn 2 of a comes first.
      request('a', 2, ['p1', 'd1', 'd0'], [10, 4, 5, 1]),
      request('a', 1, ['p0', 'd0', null], [30, 4, 5, 1]),
      request('b', 1, ['p0', 'd0', null], [20, 4, 5, 1]),
      request('b', 2, [null, 'd0', null], [7, 4, 5, 1]),
    ],
    facts,
  );
  expect(benchRoutingSchema.parse(made)).toEqual(made);
  expect(made.prefill.tokens).toEqual({ p0: 50, p1: 10 });
  // Mean 30; 60² / (2 * 2600).
  expect(made.prefill.max_over_mean).toBeCloseTo(50 / 30);
  expect(made.prefill.jain).toBeCloseTo(3600 / 5200);
  expect(made.decode.tokens).toEqual({ d0: 12, d1: 4 });
  expect(made.edges).toEqual([
    { from: 'p0', to: 'd0', bytes: 200 },
    { from: 'd0', to: 'p1', bytes: 30 },
    { from: 'p1', to: 'd1', bytes: 100 },
  ]);
  expect([made.moved_turns, made.alone_turns, made.goodput]).toEqual([1, 1, null]);
});

test('an engine without work counts in the balance; without any work there is no balance', () => {
  const one = routingOf([request('a', 1, ['p0', 'd0', null], [8, 1, 5, 1])], facts);
  expect(one.prefill).toEqual({ tokens: { p0: 8, p1: 0 }, max_over_mean: 2, jain: 0.5 });
  expect(routingOf([], facts).prefill).toMatchObject({ max_over_mean: null, jain: null });
});

test('goodput counts the requests that meet both targets, exactly or better', () => {
  const requests = [
    request('a', 1, ['p0', 'd0', null], [1, 1, 50, 10]),
    request('b', 1, ['p0', 'd0', null], [1, 1, 51, 1]),
    request('c', 1, ['p0', 'd0', null], [1, 1, 5, 11]),
    request('d', 1, ['p0', 'd0', null], [1, 1, 5, 5]),
  ];
  const within = { ...facts, sloTtftMs: 50, sloTpotMs: 10 };
  expect(routingOf(requests, within).goodput).toMatchObject({ share: 0.5, requests_per_second: 1 });
  expect(routingOf(requests, { ...within, sloTpotMs: null }).goodput!.share).toBe(0.75);
  // A request without an answer met no target: a policy does not improve by failing.
  expect(routingOf(requests, { ...within, failed: 4 }).goodput).toMatchObject({ share: 0.25 });
  expect(routingOf([], { ...within, failed: 4 }).goodput).toMatchObject({ share: 0 });
});

test('goodput per second leaves out rounds that were cut short; its share counts them', () => {
  const slow = request('c', 1, ['p0', 'd0', null], [10, 4, 90, 1]);
  const inRound = (round: number, { sample, ...rest }: MeasuredRequest) => ({
    ...rest,
    sample: { ...sample, round },
  });
  const fast = request('a', 1, ['p0', 'd0', null], [10, 4, 5, 1]);
  const { goodput } = routingOf([inRound(1, fast), inRound(2, fast), inRound(2, slow)], {
    ...facts,
    sloTtftMs: 50,
    failed: 1,
    cutRounds: new Set([1]),
  });
  expect(goodput).toEqual({ slo_ttft_ms: 50, slo_tpot_ms: null, share: 2 / 4, requests_per_second: 1 / 2 });
});
