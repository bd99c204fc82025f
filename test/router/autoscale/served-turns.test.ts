/** Statistics of ended turns for the autoscalers. */
import { expect, it } from 'vitest';
import { ServedTurns } from '../../../src/router/autoscale/served-turns.ts';
import type { RoutedTurn } from '../../../src/router/decision.ts';
import type { TurnResult } from '../../../src/router/turn-types.ts';

function ended(
  promptTokens: number,
  outputTokens: number,
  ttftMs: number,
  tpotMs: number | null,
  routed: object | null,
) {
  return {
    ...{ prompt: { promptTokens }, outputTokenIds: new Array<number>(outputTokens).fill(1), ttftMs, tpotMs },
    routed: routed as RoutedTurn | null,
  } as unknown as TurnResult;
}

it('take() returns means over the turns that ended since the last call, or null if none did', () => {
  const served = new ServedTurns();
  expect(served.take()).toBeNull();
  served.add(ended(100, 10, 40, 5, null), 1000);
  served.add(ended(300, 1, 60, null, null), 1000);
  expect(served.take()).toEqual({
    ...{ requests: 2, meanInputTokens: 200, meanOutputTokens: 5.5, ttftMs: 50, itlMs: 5 },
  });
  expect(served.take()).toBeNull();
  served.add(ended(300, 1, 60, null, null), 1000);
  expect(served.take()).toMatchObject({ requests: 1, itlMs: 0 });
});

it('TTFT is averaged per engine that prefilled, time between tokens per engine that decoded', () => {
  const served = new ServedTurns();
  served.add(ended(1, 2, 40, 5, { prefill: 'p0', decode: 'd0' }), 1000);
  served.add(ended(1, 2, 60, 7, { prefill: 'p0', decode: 'd1' }), 1000);
  served.add(ended(1, 2, 90, 3, { prefill: null, decode: 'd1' }), 1000);
  served.add(ended(1, 1, 80, null, { prefill: 'p1', decode: 'd2' }), 1000);
  served.add(ended(1, 2, 80, 9, null), 1000);
  const ids = ['p0', 'p1', 'd0', 'd1', 'd2'];
  expect(ids.map((id) => served.ttftMs(id, 1000))).toEqual([50, 80, null, 90, null]);
  expect(ids.map((id) => served.itlMs(id, 1000))).toEqual([null, null, 5, 5, null]);
  served.keep(new Set(['p0', 'd1']));
  expect(ids.map((id) => served.ttftMs(id, 1000))).toEqual([50, null, null, 90, null]);
  expect(ids.map((id) => served.itlMs(id, 1000))).toEqual([null, null, null, 5, null]);
});
