import { describe, expect, test } from 'vitest';
import type { PromptAccount } from '../../../src/engine/types.ts';
import type { RoutingPolicy } from '../../../src/router/plan.ts';
import { policyOf, routeRequest, view } from '../policies.ts';
import { chosen, ended, prefilled, scoresOf, sent, tokens, told } from './fleet.ts';

/** 1 ms a token to prefill, 1 ms a KB to move (so 1 ms a token), and nothing else. */
const SIMPLE = {
  prefillFixedMs: 0,
  prefillMsPerToken: 1,
  prefillMsPerTokenContext: 0,
  moveFixedMs: 0,
  moveMsPerByte: 1 / 1024,
  moveMsPerHolderRequest: 0,
  firstStepMs: 0,
  firstStepMsPerRequest: 0,
};
const leastTtft = (more: object = {}) => policyOf('least-ttft', { ...SIMPLE, ...more });
const mooncake = (more: object = {}) => policyOf('mooncake', { ...SIMPLE, ...more });
const cached = (by: Record<string, number>) => (engineId: string) => by[engineId] ?? 0;
const [P, D] = [
  [view('p0'), view('p1')],
  [view('d0'), view('d1')],
];
const predicted = (policy: RoutingPolicy, p = P, d = D, more = {}) =>
  policy.route(routeRequest(more), { prefill: p, decode: d });
const account = (computedTokens: number, localHitTokens = 0, pulledTokens = 0): PromptAccount => ({
  promptTokens: computedTokens + localHitTokens + pulledTokens,
  localHitTokens,
  pulledTokens,
  computedTokens,
  noPull: null,
});

describe('least-ttft', () => {
  test('one P and one D: computed, then moved', () => {
    const routing = predicted(leastTtft(), [view('p0')], [view('d0')]);
    expect(routing.predictedTtftMs).toBeCloseTo(200, 9);
    expect(routing).toMatchObject({ recompute: true });
    expect(predicted(leastTtft(), [view('p0')], [view('d0')], { promptTokenIds: [] }).predictedTtftMs).toBe(
      0,
    );
  });

  test('what P and D have is neither computed nor moved', () => {
    const cachedTokens = cached({ p1: 60, d1: 80 });
    const routing = predicted(leastTtft(), P, D, { cachedTokens });
    expect([routing.prefill.engineId, routing.decode.engineId]).toEqual(['p1', 'd1']);
    expect(routing.predictedTtftMs).toBeCloseTo(40 + 20, 9);
  });

  test('what waits at P counts until it is prefilled', () => {
    const policy = leastTtft();
    const cachedTokens = cached({ p1: 60 });
    const number = sent(policy, 'p1', 'd0', tokens(50));
    expect(scoresOf(policy, P, D, { cachedTokens })).toMatchObject({ p0: 100, p1: 40 + 50 });
    sent(policy, 'p1', 'd0', tokens(20));
    expect(scoresOf(policy, P, D, { cachedTokens })).toMatchObject({ p0: 100, p1: 40 + 70 });
    policy.observe?.(prefilled(number, 'p1'));
    expect(scoresOf(policy, P, D, { cachedTokens }).p1).toBeCloseTo(40 + 20, 9);
    policy.observe?.(ended(number));
    expect(scoresOf(policy, P, D, { cachedTokens }).p1).toBeCloseTo(40 + 20, 9);
  });

  const held = { engineId: 'd1', tokens: 80 };
  test.each([
    // Pulling 80 at 0.5 ms and computing 20, against computing 100.
    [0.5, 60, undefined],
    [2, 100, true],
  ])('held KV is pulled where it is sooner: at %f ms a token', (msPerToken, p0, recompute) => {
    const policy = leastTtft({ moveMsPerByte: msPerToken / 1024 });
    const routing = predicted(policy, [view('p0')], D, { held });
    expect(routing.scores?.find(({ engineId }) => engineId === 'p0')?.score).toBeCloseTo(p0, 9);
    expect(routing.recompute || undefined).toBe(recompute);
  });

  test('held KV is not counted on in a mode that does not pull', () => {
    const policy = leastTtft({ moveMsPerByte: 0 });
    expect(scoresOf(policy, [view('p0')], D, { held, mode: 'unidirectional' }).p0).toBe(100);
  });

  test('a holder that serves others is slower to pull from', () => {
    const policy = leastTtft({ moveMsPerByte: 0.5 / 1024, moveMsPerHolderRequest: 5 });
    for (let i = 0; i < 3; i++) policy.observe?.(prefilled(sent(policy, 'p0', 'd1'), 'p0'));
    expect(scoresOf(policy, [view('p0')], [view('d0')], { held }).p0).toBeCloseTo(60 + 15, 9);
  });

  test('D that serves others is slower to begin', () => {
    const policy = leastTtft({ firstStepMs: 4, firstStepMsPerRequest: 2 });
    policy.observe?.(prefilled(sent(policy, 'p0', 'd0'), 'p0'));
    expect(scoresOf(policy, P, D)).toMatchObject({ d0: 106, d1: 104 });
    expect(chosen(policy, [view('p0')], D)).toBe('p0 d1');
  });

  test('D does it alone only if it may', () => {
    expect(chosen(leastTtft(), [view('p0')], [view('d0')])).toBe('p0 d0');
    expect(chosen(leastTtft({ alone: true }), [view('p0')], [view('d0')])).toBe('d0');
  });

  test('a pair with a slow link is passed over, once it was seen', () => {
    const policy = leastTtft();
    const p = [view('p0')];
    const before = predicted(policy, p, D).predictedTtftMs!;
    for (let i = 0; i < 20; i++) {
      for (const [to, ms] of [
        ['d0', 400],
        ['d1', 100],
      ] as const) {
        const number = sent(policy, 'p0', to);
        policy.observe?.({ kind: 'moved', number, from: 'p0', to, bytes: 100 * 1024, ms });
        policy.observe?.(ended(number));
      }
    }
    const scores = scoresOf(policy, p, D);
    expect(scores.d0! / scores.d1!).toBeGreaterThan(2);
    expect(chosen(policy, p, D)).toBe('p0 d1');
    expect(before).toBeCloseTo(200, 9);
  });

  test('learns what prefills take from what comes true', () => {
    const policy = leastTtft();
    for (let i = 0; i < 40; i++) {
      const n = 50 + (i % 5) * 50;
      const number = sent(policy, 'p0', 'd0', tokens(n));
      policy.observe?.({ kind: 'prefilled', number, engineId: 'p0', ms: 3 * n, prompt: account(n) });
      policy.observe?.(ended(number));
    }
    const { p0 } = scoresOf(policy, P, D);
    expect(p0).toBeGreaterThan(270);
    expect(p0).toBeLessThan(330);
  });

  test('of all pairs the least, as trying each of them finds', () => {
    const policy = leastTtft({ firstStepMsPerRequest: 3, alone: false });
    const p = Array.from({ length: 6 }, (_, i) => view(`p${i}`));
    const d = Array.from({ length: 6 }, (_, i) => view(`d${i}`));
    for (const [i, { engineId: from }] of p.entries()) {
      for (const [j, { engineId: to }] of d.entries()) {
        const number = sent(policy, from, to, tokens(7 * i + 3));
        policy.observe?.({
          kind: 'moved',
          number,
          from,
          to,
          bytes: 50 * 1024,
          ms: 10 + ((i * 5 + j * 3) % 11) * 9,
        });
        if ((i + j) % 2 === 0) policy.observe?.(ended(number));
      }
    }
    const cachedTokens = (id: string) => (id.charCodeAt(1) * 37) % 90;
    const best = predicted(policy, p, d, { cachedTokens }).predictedTtftMs!;
    const each = p.flatMap((one) =>
      d.map((other) => predicted(policy, [one], [other], { cachedTokens }).predictedTtftMs!),
    );
    expect(best).toBeCloseTo(Math.min(...each), 9);
  });
});

describe('mooncake', () => {
  test('one P and one D, nothing known', () => {
    const routing = predicted(mooncake(), [view('p0')], [view('d0')]);
    expect(routing.predictedTtftMs).toBeCloseTo(100, 9);
    expect(routing.refused).toBe(undefined);
  });

  test('the P with the least estimate: what waits, and what it has', () => {
    const policy = mooncake();
    sent(policy, 'p1', 'd0', tokens(30));
    const cachedTokens = cached({ p1: 40 });
    expect(scoresOf(policy, P, D, { cachedTokens })).toMatchObject({ p0: 100, p1: 90 });
  });

  // Held 60: at 40 the ratio is 1.5, at 41 below.
  test.each([
    [40, 20 + 40],
    [41, 59],
    [0, 60 + 40],
  ])('with %i tokens of 60 held ones, p0 takes %i ms', (has, expected) => {
    const more = { held: { engineId: 'd1', tokens: 60 }, cachedTokens: cached({ p0: has }) };
    const routing = predicted(mooncake(), [view('p0')], D, more);
    expect(routing.predictedTtftMs).toBeCloseTo(expected, 9);
    expect(routing.recompute).toBe(has === 41);
  });

  test('D by what it takes between two tokens, 20 ms a request where none generates', () => {
    // 10 ms a request, 5 of them; 100 ms and 2; and as the two on the average, with 3.
    const d = [
      told('d0', { running: 4, generationTokensPerSecond: 100 }),
      told('d1', { running: 1, generationTokensPerSecond: 10 }),
      view('d2', { inFlight: 2 }),
    ];
    expect(scoresOf(mooncake(), [view('p0')], d)).toMatchObject({ d0: 50, d1: 200, d2: 165 });
    expect(chosen(mooncake(), [view('p0')], d)).toBe('p0 d0');
    expect(scoresOf(mooncake(), [view('p0')], [view('d0'), view('d1', { inFlight: 3 })])).toMatchObject({
      d0: 20,
      d1: 80,
    });
  });

  test('an idle D goes before a busy one, however fast that is', () => {
    const d = [told('d0', { running: 1, generationTokensPerSecond: 500 }), told('d1')];
    expect(chosen(mooncake(), [view('p0')], d)).toBe('p0 d1');
  });

  test('above an SLO it refuses, at it it does not', () => {
    const of = (more: object) => predicted(mooncake(more), [view('p0')], [view('d0')]).refused;
    expect(of({ ttftSloMs: 100 })).toBe(undefined);
    expect(of({ ttftSloMs: 99 })).toContain('100.0 ms, above the SLO of 99 ms');
    expect(of({ tbtSloMs: 20 })).toBe(undefined);
    expect(of({ tbtSloMs: 19 })).toContain('20.0 ms, above the SLO of 19 ms');
  });
});
