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
    // all matched: 0.005 * 100 + 1, and nothing to prefill
    ['conductor', { requests: 0, matchPercent: 100 }, 4, 1.5],
    // 75 matched, 25 not: 0.375 + 1 and 0.001 * 125 + 5
    ['conductor', { requests: 0, matchPercent: 75 }, 4, 1.375 + 5.125],
  ] as const)('%s of %o, the busiest %i', (policy, { requests, matchPercent }, most, expected) => {
    const each = { engineId: 'p0', requests, matchPercent, meanPrefillMs: null };
    expect(prefillScore(policy, each, most, 100)).toBeCloseTo(expected, 9);
  });

  test("conductor takes an engine's own mean where it has one", () => {
    const each = { engineId: 'p0', requests: 3, matchPercent: 100, meanPrefillMs: 7 };
    expect(prefillScore('conductor', each, 3, 200)).toBe(3 * 7 + 2);
    expect(conductorPrefillMs(512)).toBeCloseTo(16.585, 3);
  });

  test('too many requests are more than the mean and one sample deviation', () => {
    // mean 4, sample deviation sqrt((9 + 1 + 16) / 2) = sqrt(13)
    expect(mostRequests([1, 3, 8], 1)).toBeCloseTo(4 + Math.sqrt(13), 9);
    expect(mostRequests([1, 3, 8], 2)).toBeCloseTo(4 + 2 * Math.sqrt(13), 9);
    expect(mostRequests([5], 1)).toBe(5);
  });
});

describe("D's score", () => {
  test('load_balancing: requests and throughput against the most, by free KV', () => {
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

  test('conductor: 20 ms without throughput, half more above 90% of KV and not at 90%', () => {
    const engines = [facts('d0'), facts('d1', { freePercent: 9 }), facts('d2', { freePercent: 10 })];
    expect(decodeScores('conductor', engines, WEIGHTS)).toEqual([40, 60, 40]);
  });

  test('one that told nothing gets 1 + pending, beside one that did', () => {
    const cold = facts('d0', { hasMetrics: false, pending: 2, running: 2 });
    expect(decodeScores('least_request', [cold, facts('d1', { running: 7 })], WEIGHTS)).toEqual([3, 7]);
    // alone it is scored as the others: 2/2 + 1 - 0/1
    expect(decodeScores('load_balancing', [cold], WEIGHTS)).toEqual([2]);
  });

  test('free KV is a whole percentage, and never nothing', () => {
    expect([0, 0.004, 0.006, 1].map(freePercent)).toEqual([100, 100, 99, 0.1]);
  });
});

describe("D's fast path", () => {
  test('16 requests apart is enough, 15 is not', () => {
    expect(fast([facts('d0', { running: 16 }), facts('d1')])).toBe('d1');
    expect(fast([facts('d0', { running: 15 }), facts('d1')])).toBe(null);
  });

  test('more than 2048 tokens/s apart: the lowest throughput, 2048 is not enough', () => {
    expect(fast([facts('d0', { throughput: 2049 }), facts('d1')])).toBe('d1');
    expect(fast([facts('d0', { throughput: 2048 }), facts('d1')])).toBe(null);
  });

  test('queues that end more than 1.5 times apart: the shortest', () => {
    // 3 / 1 and 2 / 1
    const engines = (running: number, drainRate = 1) => [
      facts('d0', { running, drainRate }),
      facts('d1', { running: 2, drainRate: 1 }),
    ];
    expect(fast(engines(3))).toBe(null);
    expect(fast(engines(4))).toBe('d1');
    // 3 / max(0.05, 0.1)
    expect(fast(engines(3, 0.05))).toBe('d1');
    // None where one drains nothing, or one has nothing.
    expect(fast(engines(9, 0))).toBe(null);
    expect(fast([facts('d0', { running: 9, drainRate: 1 }), facts('d1', { drainRate: 1 })])).toBe(null);
  });

  test('those that told nothing do not count', () => {
    expect(fast([facts('d0', { running: 20 }), facts('d1', { hasMetrics: false })])).toBe(null);
    expect(fast([facts('d0', { hasMetrics: false, running: 20 })])).toBe(null);
  });
});

describe('a turn', () => {
  test('one P and one D, nothing known', () => {
    expect(chosen(pd(), [view('p0')], [view('d0')], { promptTokenIds: [] })).toBe('p0 d0');
  });

  test('goes where its prefix was sent', () => {
    const policy = pd();
    policy.observe?.(ended(sent(policy, 'p1', 'd0', tokens(100))));
    const [p, d] = [[view('p0'), view('p1')], [view('d0')]];
    expect(chosen(policy, p, d, { promptTokenIds: tokens(120) })).toBe('p1 d0');
    // 25 of 30 blocks are 83%, a whole number: 1.7 against 10.
    const scores = scoresOf(policy, p, d, { promptTokenIds: tokens(120) });
    expect(scores.p0).toBeCloseTo(10, 9);
    expect(scores.p1).toBeCloseTo(1.7, 9);
  });

  test('a prefix is forgotten after 20 minutes', () => {
    const policy = pd();
    policy.observe?.(ended(sent(policy, 'p1', 'd0', tokens(100))));
    const at = (minutes: number) =>
      scoresOf(policy, [view('p0'), view('p1')], [view('d0')], { nowMs: minutes * 60_000 }).p1;
    expect(at(20)).toBeCloseTo(0, 9);
    expect(at(20.01)).toBeCloseTo(10, 9);
  });

  test('what engines told counts instead, if asked to', () => {
    const policy = pd({ prefixIndex: 'kv-events' });
    const cachedTokens = (engineId: string) => (engineId === 'p1' ? 50 : 0);
    const scores = scoresOf(policy, [view('p0'), view('p1')], [view('d0')], { cachedTokens });
    expect(scores).toMatchObject({ p0: 10, p1: 5 });
  });

  test('more than 16 prefills apart: the least loaded P, whatever it has cached', () => {
    const policy = pd();
    const [p, d] = [[view('p0'), view('p1')], [view('d0')]];
    const numbers = Array.from({ length: 16 }, () => sent(policy, 'p0', 'd0'));
    // 16 apart; p0 is passed over as above the deviation is not, for of two none is (16 > 8 + 11.3 is false).
    expect(chosen(policy, p, d)).toBe('p0 d0');
    sent(policy, 'p0', 'd0');
    expect(chosen(policy, p, d)).toBe('p1 d0');
    policy.observe?.(prefilled(numbers[0]!, 'p0'));
    expect(chosen(policy, p, d)).toBe('p0 d0');
  });

  test('a P with more requests than mean and deviation is passed over', () => {
    const policy = pd();
    for (let i = 0; i < 9; i++) sent(policy, 'p0', 'd0');
    // requests 9, 0, 0: mean 3, deviation 5.2
    const three = [view('p0'), view('p1'), view('p2')];
    expect(Object.keys(scoresOf(policy, three, [view('d0')]))).toEqual(['p1', 'p2', 'd0']);
  });

  test('P and D are of one roleset, with the least sum', () => {
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

  test('a roleset without D is none', () => {
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b')];
    expect(chosen(pd(), p, [told('d0', {}, 'b')])).toBe('p1 d0');
    expect(chosen(pd(), [told('p0', {}, 'a')], [told('d0', {}, 'b')])).toBe('p0 d0');
  });

  test("who D's fast path chose bounds P to its roleset, however busy", () => {
    const policy = pd();
    for (let i = 0; i < 9; i++) policy.observe?.(prefilled(sent(policy, 'p2', 'd9'), 'p9'));
    // p1 has 9 prefills: above mean and deviation of three, and the only one of its roleset.
    for (let i = 0; i < 9; i++) sent(policy, 'p1', 'd9');
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b'), told('p2', {}, 'a')];
    const d = [told('d0', { running: 16 }, 'a'), told('d1', { running: 0 }, 'b')];
    expect(chosen(policy, p, d)).toBe('p1 d1');
  });

  test('both fast paths, of different rolesets: P stands', () => {
    const policy = pd();
    for (let i = 0; i < 17; i++) policy.observe?.(prefilled(sent(policy, 'p9', 'd9'), 'p9'));
    for (let i = 0; i < 17; i++) sent(policy, 'p0', 'd9');
    const p = [told('p0', {}, 'a'), told('p1', {}, 'b')];
    const d = [told('d0', { running: 0 }, 'a'), told('d1', { running: 16 }, 'b')];
    expect(chosen(policy, p, d)).toBe('p1 d1');
  });

  test('turns on their way to D count before D tells of them', () => {
    const policy = pd({ decodeScorePolicy: 'least_request' });
    const [p, d] = [[view('p0')], [told('d0'), told('d1', { running: 1 })]];
    expect(chosen(policy, p, d)).toBe('p0 d0');
    const [first] = [sent(policy, 'p0', 'd0'), sent(policy, 'p0', 'd0')];
    expect(scoresOf(policy, p, d)).toMatchObject({ d0: 2, d1: 1 });
    policy.observe?.(prefilled(first, 'p0'));
    expect(scoresOf(policy, p, d)).toMatchObject({ d0: 1, d1: 1 });
  });
});

test("its parameters may be AIBrix's variables, its routingConfig, or a pod's profiles", () => {
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
