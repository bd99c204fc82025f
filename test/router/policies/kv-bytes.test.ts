/** Policies that predict from the bytes to move, with a model that has sliding-window layers. */
import { describe, expect, test } from 'vitest';
import type { KvCacheSpec } from '../../../src/config/engine.ts';
import { kvBytesOf } from '../../../src/connector/policy/cost-model.ts';
import { makePolicy } from '../../../src/router/policies/registry.ts';
import { DEPS, routeRequest, view } from '../policies.ts';
import { tokens } from './fleet.ts';

/** Moving costs 1 ms per byte; prefill costs whole multiples of 1e6 ms, which movesMs() takes away. */
const COSTS = {
  prefillFixedMs: 0,
  prefillMsPerToken: 1e6,
  prefillMsPerTokenContext: 0,
  moveFixedMs: 0,
  moveMsPerByte: 1,
  moveMsPerHolderRequest: 0,
  firstStepMs: 0,
  firstStepMsPerRequest: 0,
};
const full: KvCacheSpec = { kind: 'full' };
const window64: KvCacheSpec = { kind: 'sliding', window: 64 };
const pair = { prefill: [view('p0')], decode: [view('d0')] };

/** The predicted time of the moves for a turn of 320 tokens, in ms, with blocks of one byte. */
function movesMs(name: 'least-ttft' | 'mooncake', groups: readonly KvCacheSpec[], more: object = {}): number {
  const policy = makePolicy(
    { name, parameters: { [name]: COSTS } },
    { ...DEPS, kvBytes: kvBytesOf(16, 1, groups) },
  );
  const request = routeRequest({ promptTokenIds: tokens(320), ...more });
  return policy.route(request, pair).predictedTtftMs! % 1e6;
}

describe('the predicted move', () => {
  test('from P to D includes what the last token sees of a sliding-window group', () => {
    // Token 319 sees from 256 on: 4 blocks of 20.
    expect(movesMs('least-ttft', [full])).toBeCloseTo(20, 5);
    expect(movesMs('least-ttft', [window64, window64, full])).toBeCloseTo(20 + 4 + 4, 5);
    const cachedTokens = (engineId: string) => (engineId === 'd0' ? 288 : 0);
    expect(movesMs('least-ttft', [window64, full], { cachedTokens })).toBeCloseTo(2 + 2, 5);
  });

  test.each(['least-ttft', 'mooncake'] as const)(
    'by %s from D to P includes what the next token sees of a sliding-window group',
    (name) => {
      const held = { engineId: 'd9', tokens: 304 };
      const handOver = name === 'mooncake' ? 0 : 20 + 4;
      // 16 tokens are computed. The 304 before them are 19 blocks, and 4 of the window, which begins at token 241.
      expect(movesMs(name, [window64, full], { held, mode: 'bidirectional' })).toBeCloseTo(
        19 + 4 + handOver,
        5,
      );
    },
  );
});
