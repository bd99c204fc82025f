/** What the learning policies predict and learn, on costs that a head can add up. */
import { describe, expect, it } from 'vitest';
import type { RouteRequest, RoutingEvent } from '../../../src/router/plan.ts';
import { CostTracker } from '../../../src/router/policies/cost-tracker.ts';
import { LearnedCosts } from '../../../src/router/policies/learned-costs.ts';
import { DEPS, routeRequest } from '../policies.ts';
import { ended, tokens } from './fleet.ts';

/** Milliseconds. A token's KV has 1,024 bytes, so moving it takes 1 ms. */
const PRIOR = {
  prefillFixedMs: 2,
  prefillMsPerToken: 1,
  prefillMsPerTokenContext: 0,
  moveFixedMs: 3,
  moveMsPerByte: 1 / 1024,
  moveMsPerHolderRequest: 5,
  firstStepMs: 4,
  firstStepMsPerRequest: 6,
};
const KIB = 1024;

const trackerOf = (prior: Partial<typeof PRIOR> = {}) =>
  new CostTracker({ ...PRIOR, ...prior }, DEPS.kvBytes);
const request = (count: number, more: Partial<RouteRequest> = {}) =>
  routeRequest({ promptTokenIds: tokens(count), ...more });

/** Tells the tracker that the turn goes to P and D; `prefill` null: D serves it alone. */
function plan(
  tracker: CostTracker,
  number: number,
  [prefill, decode]: readonly [string | null, string],
  asked: RouteRequest,
): void {
  const { length: promptTokens } = asked.promptTokenIds;
  tracker.observe({ kind: 'planned', number, prefill, decode, promptTokens, request: asked });
}

const prefilled = (number: number, ms: number, computedTokens: number, pulledTokens = 0): RoutingEvent => ({
  ...{ kind: 'prefilled', number, engineId: 'p0', ms },
  prompt: {
    ...{ promptTokens: computedTokens + pulledTokens, localHitTokens: 0, pulledTokens, computedTokens },
    noPull: null,
  },
});

/** Everything that the tracker predicts of some requests, to see whether it has learned. */
function predictions(tracker: CostTracker): number[] {
  const { costs } = tracker;
  return [
    ...[costs.prefillMs(0, 10), costs.prefillMs(100, 10), costs.waitMs(100)],
    ...[costs.firstStepMs(0), costs.firstStepMs(3)],
    ...['d0', 'd1', 'p0'].flatMap((from) => [
      costs.moveMs({ from, to: 'p0', bytes: KIB, holderRequests: 0 }),
      costs.moveMs({ from, to: 'd0', bytes: 90 * KIB, holderRequests: 2 }),
    ]),
  ];
}

const expectClose = (found: readonly number[], wanted: readonly number[]): void => {
  expect(found).toHaveLength(wanted.length);
  for (const [i, value] of found.entries()) expect(value, `prediction ${i}`).toBeCloseTo(wanted[i]!, 9);
};

describe('what P needs for a prompt', () => {
  const held = { engineId: 'd0', tokens: 80 };

  it.each([
    ['nothing is held', {}, 102, 0],
    // Pulled: 3 + 80, then 2 + 20 to compute.
    ['80 tokens are held', { held }, 102, 0],
    ['pulling must be', { held, pull: 'must' }, 105, 80],
    ['pulling is sooner', { held, fixedMs: 0 }, 102, 80],
    ['pulling is forbidden', { held, fixedMs: 0, pull: 'never' }, 102, 0],
    ['the mode does not pull', { held, fixedMs: 0, mode: 'unidirectional' }, 102, 0],
    ['P itself holds them', { held: { engineId: 'p0', tokens: 80 }, pull: 'must' }, 102, 0],
    ['P has as many cached', { held, cached: 80, pull: 'must' }, 22, 0],
    ['P has some of them cached', { held, cached: 30, pull: 'must' }, 3 + 50 + 2 + 20, 50],
    // The last token is computed for its logits, whatever is held or cached.
    ['all is held', { held: { engineId: 'd0', tokens: 500 }, pull: 'must' }, 3 + 99 + 2 + 1, 99],
    ['all is cached', { held, cached: 500, pull: 'must' }, 2 + 1, 0],
  ] as const)('if %s', (_, given, ms, pullTokens) => {
    const { pull, fixedMs, mode, cached, ...more } = {
      ...{ pull: undefined, fixedMs: 3, mode: 'bidirectional' as const, cached: 0 },
      ...given,
    };
    const tracker = trackerOf({ moveFixedMs: fixedMs });
    const cachedTokens = (id: string) => (id === 'p0' ? cached : 0);
    expect(tracker.prefill(request(100, { ...more, mode, cachedTokens }), 'p0', pull)).toEqual({
      ms,
      pullTokens,
    });
  });

  it('includes the work ahead, until it is prefilled, has its first token or ends', () => {
    const tracker = trackerOf();
    for (const [number, count] of [10, 20, 30].entries()) plan(tracker, number, ['p0', 'd0'], request(count));
    expect(tracker.aheadMs('p0')).toBe(2 + 10 + (2 + 20) + (2 + 30));
    expect(tracker.prefill(request(5), 'p0').ms).toBe(66 + 2 + 5);
    tracker.observe({ kind: 'prefilled', number: 0, engineId: 'p0', ms: 1, prompt: null });
    tracker.observe({ kind: 'first token', number: 0, engineId: 'd0', ttftMs: 1 });
    tracker.observe(ended(0));
    expect(tracker.aheadMs('p0')).toBeCloseTo(54, 9);
    tracker.observe({ kind: 'first token', number: 1, engineId: 'd0', ttftMs: 1 });
    expect(tracker.aheadMs('p0')).toBeCloseTo(32, 9);
    tracker.observe(ended(2));
    expect(tracker.aheadMs('p0')).toBe(0);
    plan(tracker, 3, [null, 'd0'], request(7));
    expect([tracker.aheadMs('p0'), tracker.aheadMs('d0')]).toEqual([0, 9]);
  });
});

describe('what is learned', () => {
  it('is nothing if all took what was predicted', () => {
    const tracker = trackerOf();
    const before = predictions(tracker);
    plan(tracker, 1, ['p0', 'd1'], request(40));
    plan(tracker, 2, ['p1', 'd0'], request(40));
    const [waitMs, requestsAtD0, requestsAtD1] = [42, 1, 1];
    const held = { engineId: 'd1', tokens: 80 };
    plan(tracker, 3, ['p0', 'd0'], request(100, { held }));
    const pullMs = 3 + 80 + 5 * requestsAtD1;
    const prefillMs = 2 + 20;
    const handOverMs = 3 + 100;
    const move = { kind: 'moved', number: 3 } as const;
    tracker.observe({ ...move, from: 'd1', to: 'p0', bytes: 80 * KIB, ms: pullMs });
    tracker.observe(prefilled(3, prefillMs, 20, 80));
    tracker.observe({ ...move, from: 'p0', to: 'd0', bytes: 100 * KIB, ms: handOverMs });
    const ttftMs = waitMs + pullMs + prefillMs + handOverMs + 4 + 6 * requestsAtD0;
    tracker.observe({ kind: 'first token', number: 3, engineId: 'd0', ttftMs });
    tracker.observe(ended(3));
    expectClose(predictions(tracker), before);
  });

  it('does not count the turn itself among those that its holder serves', () => {
    const tracker = trackerOf();
    const before = predictions(tracker);
    plan(tracker, 1, ['p0', 'd0'], request(100, { held: { engineId: 'd0', tokens: 80 } }));
    tracker.observe({ kind: 'moved', number: 1, from: 'd0', to: 'p0', bytes: 80 * KIB, ms: 3 + 80 });
    expectClose(predictions(tracker), before);
  });

  it('takes a handover that nobody reported for what it was predicted to take', () => {
    const tracker = trackerOf();
    const before = predictions(tracker);
    plan(tracker, 1, ['p0', 'd0'], request(50));
    tracker.observe(prefilled(1, 52, 50));
    tracker.observe({ kind: 'first token', number: 1, engineId: 'd0', ttftMs: 52 + (3 + 50) + 4 });
    expectClose(predictions(tracker), before);
  });

  it('has no handover where D serves alone', () => {
    const tracker = trackerOf();
    const before = predictions(tracker);
    plan(tracker, 1, [null, 'd0'], request(50));
    tracker.observe(prefilled(1, 52, 50));
    tracker.observe({ kind: 'first token', number: 1, engineId: 'd0', ttftMs: 52 + 4 });
    expectClose(predictions(tracker), before);
  });

  it('follows first tokens that come later than predicted', () => {
    const tracker = trackerOf();
    for (let number = 1; number <= 30; number++) {
      plan(tracker, number, [null, 'd0'], request(50));
      tracker.observe(prefilled(number, 52, 50));
      tracker.observe({ kind: 'first token', number, engineId: 'd0', ttftMs: 52 + 40 });
      tracker.observe(ended(number));
    }
    expect(tracker.costs.firstStepMs(0)).toBeCloseTo(40, 0);
    expect(tracker.costs.prefillMs(0, 50)).toBeCloseTo(52, 9);
  });

  it('is nothing from a first token without a prefill, from turns that ended, and from unknown ones', () => {
    const tracker = trackerOf();
    const before = predictions(tracker);
    plan(tracker, 1, ['p0', 'd0'], request(50));
    tracker.observe({ kind: 'first token', number: 1, engineId: 'd0', ttftMs: 9999 });
    tracker.observe(ended(1));
    for (const number of [1, 77]) {
      tracker.observe(prefilled(number, 9999, 50));
      tracker.observe({ kind: 'first token', number, engineId: 'd0', ttftMs: 9999 });
    }
    expectClose(predictions(tracker), before);
  });
});

describe('moves', () => {
  const move = (from: string, to: string, bytes = 100 * KIB) => ({ from, to, bytes, holderRequests: 0 });
  /** Costs that have seen a slow pair, a fast one and an ordinary one. */
  function measured(): LearnedCosts {
    const costs = new LearnedCosts({ ...PRIOR, moveMsPerHolderRequest: 0 });
    for (let i = 0; i < 20; i++) {
      costs.moved(move('p0', 'd0'), 500);
      costs.moved(move('p0', 'd1'), 20);
      costs.moved(move('p1', 'd1'), 100);
    }
    return costs;
  }

  it('differ by pair, once measured', () => {
    const costs = measured();
    const [slow, fast, other] = [move('p0', 'd0'), move('p0', 'd1'), move('p1', 'd1')].map((one) =>
      costs.moveMs(one),
    );
    expect(slow! / other!).toBeGreaterThan(2);
    expect(other! / fast!).toBeGreaterThan(2);
    expect(costs.moveMs(move('p9', 'd9'))).toBeLessThan(slow!);
  });

  it('take no less than the lower bound, which the fastest pair is near to', () => {
    const costs = measured();
    for (const bytes of [1, KIB, 100 * KIB]) {
      const each = ['p0', 'p1', 'p9'].flatMap((from) =>
        ['d0', 'd1', 'd9'].map((to) => costs.moveMs(move(from, to, bytes))),
      );
      expect(costs.leastMoveMs(bytes)).toBeGreaterThan(0);
      expect(costs.leastMoveMs(bytes)).toBeLessThanOrEqual(Math.min(...each));
      expect(costs.leastMoveMs(bytes)).toBeGreaterThan(0.5 * Math.min(...each));
    }
  });

  it('of nothing take no time and teach nothing', () => {
    const costs = new LearnedCosts(PRIOR);
    costs.moved(move('p0', 'd0', 0), 5000);
    expect(costs.moveMs(move('p0', 'd0'))).toBeCloseTo(103, 9);
    expect([costs.moveMs(move('p0', 'd0', 0)), costs.leastMoveMs(0)]).toEqual([0, 0]);
  });

  it.each(['p0', 'd0'])('of a pair are forgotten with %s', (gone) => {
    const costs = measured();
    costs.forget(gone);
    expect(costs.moveMs(move('p0', 'd0'))).toBe(costs.moveMs(move('p9', 'd9')));
  });
});
