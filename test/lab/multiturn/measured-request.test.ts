import { expect, test } from 'vitest';
import { measuredRequest } from '../../../src/lab/multiturn/measured-request.ts';
import { answeredTurn } from './fake-target.ts';

const sent = { round: 1, conversationId: 'a', turn: 1, client: 0, startMs: 0, inputTokens: 1 };

test.each([
  [1, 1, 0],
  [3, 3, 3],
  [2, 4, 3],
  // One token in two chunks, and a server that reports no count.
  [2, 1, 6],
  [2, 0, 6],
])('%i chunks of %i tokens in 6 ms after the first: %i ms a token', (chunks, outputTokens, expected) => {
  const { sample } = measuredRequest(sent, {
    ...answeredTurn([]),
    chunks,
    outputTokens,
    ttftMs: 4,
    latencyMs: 10,
  });
  expect(sample.tpot_ms).toBe(expected);
});
