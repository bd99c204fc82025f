import { describe, expect, test } from 'vitest';
import type { PromptAccount } from '../../../src/engine/types.ts';
import type { RoutingPolicy } from '../../../src/router/plan.ts';
import { policyOf, routeRequest, view } from '../policies.ts';
import { chosen, ended, prefilled, scoresOf, sent, tokens, told } from './fleet.ts';

/** Prefill costs 1 ms per token and a move 1 ms per 1,024 bytes (so 1 ms per token); all else costs nothing. */
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
  test('predicts the time to compute the prompt plus the time to move it', () => {
    const routing = predicted(leastTtft(), [view('p0')], [view('d0')]);
    expect(routing.predictedTtftMs).toBeCloseTo(200, 9);
    expect(routing).toMatchObject({ recompute: true });
    expect(predicted(leastTtft(), [view('p0')], [view('d0')], { promptTokenIds: [] }).predictedTtftMs).toBe(
      0,
    );
  });

  test('predicts no computing or moving of what P and D have cached', () => {
    const cachedTokens = cached({ p1: 60, d1: 80 });
    const routing = predicted(leastTtft(), P, D, { cachedTokens });
    expect([routing.prefill.engineId, routing.decode.engineId]).toEqual(['p1', 'd1']);
    expect(routing.predictedTtftMs).toBeCloseTo(40 + 20, 9);
  });

  test('adds the turns waiting at P until they are prefilled', () => {
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
    // Pulling 80 tokens at 0.5 ms and computing 20, compared with computing 100.
    [0.5, 60, undefined],
    [2, 100, true],
  ])(
    'pulls held KV only if that is faster than computing it: at %f ms per token',
    (msPerToken, p0, recompute) => {
      const policy = leastTtft({ moveMsPerByte: msPerToken / 1024 });
      const routing = predicted(policy, [view('p0')], D, { held });
      expect(routing.scores?.find(({ engineId }) => engineId === 'p0')?.score).toBeCloseTo(p0, 9);
      expect(routing.recompute || undefined).toBe(recompute);
    },
  );

  test('ignores held KV in a mode that does not pull', () => {
    const policy = leastTtft({ moveMsPerByte: 0 });
    expect(scoresOf(policy, [view('p0')], D, { held, mode: 'unidirectional' }).p0).toBe(100);
  });

  test('predicts a slower pull from a holder that serves other turns', () => {
    const policy = leastTtft({ moveMsPerByte: 0.5 / 1024, moveMsPerHolderRequest: 5 });
    for (let i = 0; i < 3; i++) policy.observe?.(prefilled(sent(policy, 'p0', 'd1'), 'p0'));
    expect(scoresOf(policy, [view('p0')], [view('d0')], { held }).p0).toBeCloseTo(60 + 15, 9);
  });

  test('predicts a slower first step on a D that serves other turns', () => {
    const policy = leastTtft({ firstStepMs: 4, firstStepMsPerRequest: 2 });
    policy.observe?.(prefilled(sent(policy, 'p0', 'd0'), 'p0'));
    expect(scoresOf(policy, P, D)).toMatchObject({ d0: 106, d1: 104 });
    expect(chosen(policy, [view('p0')], D)).toBe('p0 d1');
  });

  test('lets D serve alone only if the parameter alone is set', () => {
    expect(chosen(leastTtft(), [view('p0')], [view('d0')])).toBe('p0 d0');
    expect(chosen(leastTtft({ alone: true }), [view('p0')], [view('d0')])).toBe('d0');
  });

  test('alone takes the D that is done soonest, and only if that is sooner than P and D', () => {
    const policy = leastTtft({ alone: true, firstStepMsPerRequest: 30 });
    const d = [view('d0'), view('d1'), view('d2')];
    const cachedTokens = cached({ d1: 50, d2: 60 });
    expect(predicted(policy, [view('p0')], d, { cachedTokens })).toMatchObject({
      ...{ alone: true, predictedTtftMs: 40, why: '~40.0 ms alone, ~140.0 over P' },
    });
    expect(chosen(policy, [view('p0')], d, { cachedTokens })).toBe('d2');
    policy.observe?.(prefilled(sent(policy, 'p0', 'd2'), 'p0'));
    expect(chosen(policy, [view('p0')], d, { cachedTokens })).toBe('d1');
    const allAtP = cached({ p0: 99, d0: 100, d1: 98 });
    expect(chosen(leastTtft({ alone: true }), [view('p0')], D, { cachedTokens: allAtP })).toBe('p0 d0');
  });

  test('draws among equals', () => {
    const d = [view('d0'), view('d1'), view('d2')];
    const by = (...draws: number[]) => chosen(policyOf('least-ttft', SIMPLE, draws), P, d);
    expect([by(0, 0), by(0.6, 0), by(0, 0.4), by(0.6, 0.9)]).toEqual(['p0 d0', 'p1 d0', 'p0 d1', 'p1 d2']);
  });

  test('forgets the links of an engine that has ended', () => {
    const policy = leastTtft();
    const number = sent(policy, 'p0', 'd0');
    policy.observe?.({ kind: 'moved', number, from: 'p0', to: 'd0', bytes: 100 * 1024, ms: 1000 });
    policy.observe?.(ended(number));
    const by = () => scoresOf(policy, [view('p0')], D);
    expect(by().d0).toBeGreaterThan(by().d1!);
    policy.forget?.('d0');
    expect(by().d0).toBe(by().d1);
  });

  test('avoids a pair with a slow link, once that was measured', () => {
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

  test('takes a P that is done later if its link is faster by more than that', () => {
    const policy = leastTtft();
    for (let i = 0; i < 20; i++) {
      for (const [from, ms] of [
        ['p0', 400],
        ['p1', 50],
      ] as const) {
        const number = sent(policy, from, 'd0');
        policy.observe?.({ kind: 'moved', number, from, to: 'd0', bytes: 100 * 1024, ms });
        policy.observe?.(ended(number));
      }
    }
    const by = (p0: number) => chosen(policy, P, [view('d0')], { cachedTokens: cached({ p0 }) });
    expect([by(0), by(20), by(99)]).toEqual(['p1 d0', 'p1 d0', 'p1 d0']);
    expect(chosen(policy, P, [view('d1')], { cachedTokens: cached({ p0: 20 }) })).toBe('p0 d1');
  });

  test('learns the time of prefills from measured ones', () => {
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

  test('finds the pair with the least prediction, as trying each pair does', () => {
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
  test('predicts the time to compute the whole prompt if nothing is known', () => {
    const routing = predicted(mooncake(), [view('p0')], [view('d0')]);
    expect(routing.predictedTtftMs).toBeCloseTo(100, 9);
    expect(routing.refused).toBe(undefined);
  });

  test('scores P by the work waiting there and the tokens cached there', () => {
    const policy = mooncake();
    sent(policy, 'p1', 'd0', tokens(30));
    const cachedTokens = cached({ p1: 40 });
    expect(scoresOf(policy, P, D, { cachedTokens })).toMatchObject({ p0: 100, p1: 90 });
  });

  // 60 tokens are held: with 40 cached the ratio is 1.5, with 41 it is lower.
  test.each([
    [40, 20 + 40],
    [41, 59],
    [0, 60 + 40],
  ])('with %i of 60 held tokens cached at p0 predicts %i ms', (has, expected) => {
    const more = { held: { engineId: 'd1', tokens: 60 }, cachedTokens: cached({ p0: has }) };
    const routing = predicted(mooncake(), [view('p0')], D, more);
    expect(routing.predictedTtftMs).toBeCloseTo(expected, 9);
    expect(routing.recompute).toBe(has === 41);
  });

  test('scores D by its time between tokens, assuming 20 ms per request if no D generates', () => {
    // d0: 10 ms per request, 5 requests. d1: 100 ms, 2 requests. d2: the mean of the two, 3 requests.
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

  test('prefers an idle D to a busy one, however fast the busy one is', () => {
    const d = [told('d0', { running: 1, generationTokensPerSecond: 500 }), told('d1')];
    expect(chosen(mooncake(), [view('p0')], d)).toBe('p0 d1');
  });

  test('refuses a turn that is predicted to be above an SLO, but not exactly at it', () => {
    const of = (more: object) => predicted(mooncake(more), [view('p0')], [view('d0')]).refused;
    expect(of({ ttftSloMs: 100 })).toBe(undefined);
    expect(of({ ttftSloMs: 99 })).toContain('100.0 ms, above the SLO of 99 ms');
    expect(of({ tbtSloMs: 20 })).toBe(undefined);
    expect(of({ tbtSloMs: 19 })).toContain('20.0 ms, above the SLO of 19 ms');
  });
});
