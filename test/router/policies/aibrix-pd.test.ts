import { describe, expect, test } from 'vitest';
import {
  type DecodeFacts,
  decodeFastPath,
  decodeScores,
  freePercent,
} from '../../../src/router/policies/aibrix-pd/decode-scores.ts';
import {
  conductorPrefillMs,
  mostRequests,
  prefillScore,
} from '../../../src/router/policies/aibrix-pd/prefill-scores.ts';
import { policyOf, view } from '../policies.ts';
import { chosen, ended, prefilled, scoresOf, sent, tokens, told } from './fleet.ts';

const pd = (parameters: object = {}) => policyOf('aibrix-pd', parameters);
const facts = (engineId: string, more: Partial<DecodeFacts> = {}): DecodeFacts => ({
  engineId,
  running: 0,
  pending: 0,
  hasMetrics: true,
  throughput: 0,
  drainRate: 0,
  freePercent: 100,
  ...more,
});
const LIMITS = {
  decodeLoadImbalanceMinSpread: 16,
  decodeThroughputImbalanceMinSpread: 2048,
  decodeScoreRatioThreshold: 1.5,
};
const WEIGHTS = { decodeLbWeightRunning: 1, decodeLbWeightThroughput: 1 };
const fast = (engines: DecodeFacts[]) => decodeFastPath(engines, LIMITS, () => 0)?.engineId ?? null;

describe("P's score", () => {
  // (100 - match) / 10 + requests / most
  test.each([
    ['prefix_cache', { requests: 0, matchPercent: 0 }, 4, 10],
    ['prefix_cache', { requests: 4, matchPercent: 100 }, 4, 1],
    ['prefix_cache', { requests: 1, matchPercent: 50 }, 4, 5.25],
    ['least_request', { requests: 3, matchPercent: 100 }, 4, 3],
    // 2 * 16.585 (of 512 tokens) + 0.001 * 100 ** 1.5 + 5
    ['conductor', { requests: 2, matchPercent: 0 }, 4, 2 * (0.001 * 512 ** 1.5 + 5) + 6],
    // All matched: 0.005 * 100 + 1, and nothing to prefill.
    ['conductor', { requests: 0, matchPercent: 100 }, 4, 1.5],
    // 75 matched, 25 not: 0.375 + 1, and 0.001 * 125 + 5.
    ['conductor', { requests: 0, matchPercent: 75 }, 4, 1.375 + 5.125],
  ] as const)(
    'with %s is right for %o if the busiest P has %i requests',
    (policy, { requests, matchPercent }, most, expected) => {
      const each = { engineId: 'p0', requests, matchPercent, meanPrefillMs: null };
      expect(prefillScore(policy, each, most, 100)).toBeCloseTo(expected, 9);
    },
  );

  test("with conductor uses an engine's own mean prefill time, if known", () => {
    const each = { engineId: 'p0', requests: 3, matchPercent: 100, meanPrefillMs: 7 };
    expect(prefillScore('conductor', each, 3, 200)).toBe(3 * 7 + 2);
    expect(conductorPrefillMs(512)).toBeCloseTo(16.585, 3);
  });

  test('has a limit of requests: their mean plus a number of sample deviations', () => {
    // mean 4, sample deviation sqrt((9 + 1 + 16) / 2) = sqrt(13)
    expect(mostRequests([1, 3, 8], 1)).toBeCloseTo(4 + Math.sqrt(13), 9);
    expect(mostRequests([1, 3, 8], 2)).toBeCloseTo(4 + 2 * Math.sqrt(13), 9);
    expect(mostRequests([5], 1)).toBe(5);
  });
});

describe("D's score", () => {
  test('is right for load_balancing, least_request and conductor', () => {
    const engines = [
      facts('d0', { running: 4, throughput: 100, freePercent: 50 }),
      facts('d1', { running: 2, throughput: 50, freePercent: 100 }),
    ];
    // (4/4 + 1 - 100/100) / (50/100), (2/4 + 1 - 50/100) / (100/100)
    expect(decodeScores('load_balancing', engines, WEIGHTS)).toEqual([2, 1]);
    expect(decodeScores('least_request', engines, WEIGHTS)).toEqual([4, 2]);
    // 1000/100 * (1 + 1/4), 1000/50 * (1 + 1/2)
    expect(decodeScores('conductor', engines, WEIGHTS)).toEqual([12.5, 30]);
  });

  test('with conductor assumes 20 ms without throughput, and is half as much again above 90% KV usage', () => {
    const engines = [facts('d0'), facts('d1', { freePercent: 9 }), facts('d2', { freePercent: 10 })];
    expect(decodeScores('conductor', engines, WEIGHTS)).toEqual([40, 60, 40]);
  });

  test('is 1 + pending for a D without metrics if another has some', () => {
    const cold = facts('d0', { hasMetrics: false, pending: 2, running: 2 });
    expect(decodeScores('least_request', [cold, facts('d1', { running: 7 })], WEIGHTS)).toEqual([3, 7]);
    // Alone, it is scored like the others: 2/2 + 1 - 0/1.
    expect(decodeScores('load_balancing', [cold], WEIGHTS)).toEqual([2]);
  });

  test('uses free KV as a whole percentage that is never 0', () => {
    expect([0, 0.004, 0.006, 1].map(freePercent)).toEqual([100, 100, 99, 0.1]);
  });
});

describe("D's fast path", () => {
  test('picks the D with the fewest requests if they are 16 apart, not 15', () => {
    expect(fast([facts('d0', { running: 16 }), facts('d1')])).toBe('d1');
    expect(fast([facts('d0', { running: 15 }), facts('d1')])).toBe(null);
  });

  test('picks the D with the lowest throughput if they are more than 2048 tokens/s apart', () => {
    expect(fast([facts('d0', { throughput: 2049 }), facts('d1')])).toBe('d1');
    expect(fast([facts('d0', { throughput: 2048 }), facts('d1')])).toBe(null);
  });

  test('picks the D that drains soonest if drain times differ by more than a factor of 1.5', () => {
    // 3 / 1 and 2 / 1
    const engines = (running: number, drainRate = 1) => [
      facts('d0', { running, drainRate }),
      facts('d1', { running: 2, drainRate: 1 }),
    ];
    expect(fast(engines(3))).toBe(null);
    expect(fast(engines(4))).toBe('d1');
    // 3 / max(0.05, 0.1)
    expect(fast(engines(3, 0.05))).toBe('d1');
    // Not if one D drains nothing or has no requests.
    expect(fast(engines(9, 0))).toBe(null);
    expect(fast([facts('d0', { running: 9, drainRate: 1 }), facts('d1', { drainRate: 1 })])).toBe(null);
  });

  test('ignores engines without metrics', () => {
    expect(fast([facts('d0', { running: 20 }), facts('d1', { hasMetrics: false })])).toBe(null);
    expect(fast([facts('d0', { hasMetrics: false, running: 20 })])).toBe(null);
  });
});

describe('a turn', () => {
  test('goes to the only P and D if nothing is known', () => {
    expect(chosen(pd(), [view('p0')], [view('d0')], { promptTokenIds: [] })).toBe('p0 d0');
  });

  test('goes to the P that was sent its prefix', () => {
    const policy = pd();
    policy.observe?.(ended(sent(policy, 'p1', 'd0', tokens(100))));
    const [p, d] = [[view('p0'), view('p1')], [view('d0')]];
    expect(chosen(policy, p, d, { promptTokenIds: tokens(120) })).toBe('p1 d0');
    // 25 of 30 blocks are 83% as a whole number, so 1.7 against 10.
    const scores = scoresOf(policy, p, d, { promptTokenIds: tokens(120) });
    expect(scores.p0).toBeCloseTo(10, 9);
    expect(scores.p1).toBeCloseTo(1.7, 9);
  });

  test('does not count a prefix that was sent more than 20 minutes ago', () => {
    const policy = pd();
    policy.observe?.(ended(sent(policy, 'p1', 'd0', tokens(100))));
    const at = (minutes: number) =>
      scoresOf(policy, [view('p0'), view('p1')], [view('d0')], { nowMs: minutes * 60_000 }).p1;
    expect(at(20)).toBeCloseTo(0, 9);
    expect(at(20.01)).toBeCloseTo(10, 9);
  });

  test('uses the caches that engines report instead with prefixIndex kv-events', () => {
    const policy = pd({ prefixIndex: 'kv-events' });
    const cachedTokens = (engineId: string) => (engineId === 'p1' ? 50 : 0);
    const scores = scoresOf(policy, [view('p0'), view('p1')], [view('d0')], { cachedTokens });
    expect(scores).toMatchObject({ p0: 10, p1: 5 });
  });

  test('goes to the least loaded P if loads are more than 16 prefills apart', () => {
    const policy = pd();
    const [p, d] = [[view('p0'), view('p1')], [view('d0')]];
    const numbers = Array.from({ length: 16 }, () => sent(policy, 'p0', 'd0'));
    // Exactly 16 apart is not enough. Nor is p0 skipped as above the deviation: 16 > 8 + 11.3 is false.
    expect(chosen(policy, p, d)).toBe('p0 d0');
    sent(policy, 'p0', 'd0');
    expect(chosen(policy, p, d)).toBe('p1 d0');
    policy.observe?.(prefilled(numbers[0]!, 'p0'));
    expect(chosen(policy, p, d)).toBe('p0 d0');
  });

  test('skips a P with more requests than the mean plus one deviation', () => {
    const policy = pd();
    for (let i = 0; i < 9; i++) sent(policy, 'p0', 'd0');
    // Requests 9, 0, 0: mean 3, deviation 5.2.
    const three = [view('p0'), view('p1'), view('p2')];
    expect(Object.keys(scoresOf(policy, three, [view('d0')]))).toEqual(['p1', 'p2', 'd0']);
  });

  test('goes to the P and D of one roleset whose scores have the least sum', () => {
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b')];
    const d = [told('d0', { running: 8 }, 'a'), told('d1', { running: 2 }, 'b')];
    const policy = pd({ prefillScorePolicy: 'least_request', decodeScorePolicy: 'least_request' });
    // a: 0 + 8/8, b: 0 + 2/8
    expect(chosen(policy, p, d)).toBe('p1 d1');
    for (let i = 0; i < 4; i++) policy.observe?.(prefilled(sent(policy, 'p1', 'd1'), 'p1'));
    sent(policy, 'p1', 'd1');
    // b: 1/1 + 3/8 (one pending), a: 0 + 8/8
    expect(chosen(policy, p, d)).toBe('p0 d0');
  });

  test('ignores a roleset without a D', () => {
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b')];
    expect(chosen(pd(), p, [told('d0', {}, 'b')])).toBe('p1 d0');
    expect(chosen(pd(), [told('p0', {}, 'a')], [told('d0', {}, 'b')])).toBe('p0 d0');
  });

  test("takes P from the roleset that D's fast path chose, however busy P is", () => {
    const policy = pd();
    for (let i = 0; i < 9; i++) policy.observe?.(prefilled(sent(policy, 'p2', 'd9'), 'p9'));
    // p1 has 9 prefills, above the mean plus deviation of all three, but is the only P of its roleset.
    for (let i = 0; i < 9; i++) sent(policy, 'p1', 'd9');
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b'), told('p2', {}, 'a')];
    const d = [told('d0', { running: 16 }, 'a'), told('d1', { running: 0 }, 'b')];
    expect(chosen(policy, p, d)).toBe('p1 d1');
  });

  test('follows P’s fast path if D’s chose another roleset', () => {
    const policy = pd();
    for (let i = 0; i < 17; i++) policy.observe?.(prefilled(sent(policy, 'p9', 'd9'), 'p9'));
    for (let i = 0; i < 17; i++) sent(policy, 'p0', 'd9');
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b')];
    const d = [told('d0', { running: 0 }, 'a'), told('d1', { running: 16 }, 'b')];
    expect(chosen(policy, p, d)).toBe('p1 d1');
  });

  test('counts turns on their way to D before D reports them', () => {
    const policy = pd({ decodeScorePolicy: 'least_request' });
    const [p, d] = [[view('p0')], [told('d0'), told('d1', { running: 1 })]];
    expect(chosen(policy, p, d)).toBe('p0 d0');
    const [first] = [sent(policy, 'p0', 'd0'), sent(policy, 'p0', 'd0')];
    expect(scoresOf(policy, p, d)).toMatchObject({ d0: 2, d1: 1 });
    policy.observe?.(prefilled(first, 'p0'));
    expect(scoresOf(policy, p, d)).toMatchObject({ d0: 1, d1: 1 });
  });
});

test("parameters of aibrix-pd may be AIBrix's variables, its routingConfig or a pod's profiles", () => {
  const score = { AIBRIX_PREFILL_SCORE_POLICY: 'least_request', AIBRIX_DECODE_LB_WEIGHT_THROUGHPUT: '0' };
  expect(scoresOf(pd(score), [view('p0')], [told('d0')])).toEqual({ p0: 0, d0: 0 });
  const routingConfig = { prefillScorePolicy: 'least_request', decodeScorePolicy: 'conductor' };
  const profile = { routingStrategy: 'pd', routingConfig };
  const profiles = { defaultProfile: 'x', profiles: { x: profile } };
  for (const given of [profile, profiles]) {
    expect(scoresOf(pd(given), [view('p0')], [told('d0')])).toEqual({ p0: 0, d0: 40 });
  }
  expect(() => pd({ AIBRIX_PREFIL_SCORE_POLICY: 'x' })).toThrow("no parameter 'AIBRIX_PREFIL_SCORE_POLICY'");
  expect(() => pd({ prefillScorePolicy: 'fastest' })).toThrow('prefillScorePolicy');
});
