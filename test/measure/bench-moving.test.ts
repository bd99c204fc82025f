import { expect, test } from 'vitest';
import { movingOf } from '../../src/measure/summaries/bench-moving.ts';
import type { MeasuredRequest } from '../../src/measure/summaries/bench-summary.ts';

const request = (
  conversation_id: string,
  turn: number,
  [prefill, decode]: [string | null, string],
  [ttft_ms, bytesPToD, computed_tokens]: [number, number, number],
  round = 1,
): MeasuredRequest => ({
  sample: {
    ...{ round, conversation_id, turn, ttft_ms, computed_tokens, client: 0, start_ms: 0, tpot_ms: 5 },
    ...{ latency_ms: ttft_ms, input_num_turns: turn, input_num_tokens: 100, output_num_tokens: 3 },
    ...{ output_num_chunks: 2, local_hit_tokens: 0, pulled_tokens: 0, stages_ms: {} },
  },
  gapsMs: [],
  output: [],
  routed: { prefill, decode, load: null },
  bytesPToD,
  bytesDToP: 10,
});
const first = (decode: string, round = 1) => request('a', 1, ['p0', decode], [99, 99, 99], round);
const none = () => ({ ratio: null, low: null, high: null });

test('times of the same later turn are compared between moving and staying; each request counts once', () => {
  const kept = [first('d0'), request('a', 2, ['p0', 'd0'], [20, 100, 5])];
  const moved = [
    first('d0'),
    request('a', 2, ['p1', 'd1'], [30, 300, 5]),
    first('d1', 2),
    request('a', 2, ['p1', 'd0'], [50, 500, 7], 2),
  ];
  const pairs: unknown[] = [];
  const found = movingOf([kept, moved], (given) => {
    pairs.push(...given);
    return { ratio: 2, low: 1.5, high: 3 };
  });
  expect(pairs).toEqual([[40, 20]]);
  expect(found).toEqual({
    requests: 1,
    stayed: { turns: 1, ttft_ms: 20, bytes_p_to_d: 100, bytes_d_to_p: 10, computed_tokens: 5 },
    moved: { turns: 2, ttft_ms: 40, bytes_p_to_d: 400, bytes_d_to_p: 10, computed_tokens: 6 },
    ttft_ratio: { ratio: 2, low: 1.5, high: 3 },
  });
});

test('nothing is compared if every turn moved, or if one engine alone served the turn before', () => {
  const moved = [first('d0'), request('a', 2, ['p1', 'd1'], [30, 300, 5])];
  const alone = [request('a', 1, [null, 'd0'], [1, 1, 1]), request('a', 2, ['p0', 'd0'], [20, 100, 5])];
  expect(movingOf([moved, moved], none)).toBeNull();
  expect(movingOf([moved, alone], none)).toBeNull();
  expect(movingOf([moved, [first('d0'), request('a', 2, ['p0', 'd0'], [1, 1, 1])]], none)).toMatchObject({
    requests: 1,
    ttft_ratio: null,
  });
});
