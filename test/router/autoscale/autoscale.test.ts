import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { AUTOSCALERS } from '../../../src/config/autoscale.ts';
import { apaEngines, kpaEngines, kpaSchema } from '../../../src/router/autoscale/aibrix.ts';
import {
  dynamoSlaSchema,
  enginesForThroughput,
  withinBudget,
} from '../../../src/router/autoscale/dynamo-sla.ts';
import { hpaEngines } from '../../../src/router/autoscale/k8s-hpa.ts';
import { makeAutoscaler } from '../../../src/router/autoscale/registry.ts';
import type { FleetLoad, RoleLoad } from '../../../src/router/autoscale/types.ts';

const SECOND = 1000;
const role = (engines: number, ...values: number[]): RoleLoad => ({ engines, values });
const all = (engines: number, value: number): RoleLoad => role(engines, ...Array(engines).fill(value));
const at = (seconds: number, prefill: RoleLoad, more: Partial<FleetLoad> = {}): FleetLoad => ({
  nowMs: seconds * SECOND,
  prefill,
  decode: role(1),
  served: null,
  changing: false,
  ...more,
});
/** Of the P role by itself; D has no metrics and stays. */
const byRole = (name: (typeof AUTOSCALERS)[number], parameters: object = {}) => {
  const scaler = makeAutoscaler(name, {
    prefill: { target: 10, maxEngines: 100, ...parameters },
    decode: { target: 10 },
  });
  return (seconds: number, load: RoleLoad, changing = false) =>
    scaler.decide(at(seconds, load, { changing })).prefill;
};
const RATES = { maxScaleUpRate: 2, maxScaleDownRate: 2, scaleUpTolerance: 0.1, scaleDownTolerance: 0.1 };

describe('aibrix-apa', () => {
  test.each([
    // n, ratio, engines
    [4, 1, 4],
    [4, 1.1, 4],
    [4, 1.11, 5],
    [4, 1.5, 6],
    [4, 2, 8],
    [4, 2.01, 8],
    [4, 9, 8],
    [4, 0.9, 4],
    [4, 0.89, 4],
    [4, 0.75, 3],
    [4, 0.5, 2],
    [4, 0.1, 2],
    [4, 0, 2],
    [5, 0.1, 2],
    [1, 3, 2],
    [1, 0.2, 1],
    [1, 0, 0],
    [10, 0.89, 9],
    [3, 1.2, 4],
    [0, 5, 0],
  ])('%i engines at %f of the target: %i', (n, ratio, expected) => {
    expect(apaEngines(n, ratio, RATES as never)).toBe(expected);
  });

  test('the value is the mean over engines and over the window of 180 s', () => {
    const decide = byRole('aibrix-apa');
    expect(decide(0, role(2, 30, 10)).want).toBe(4);
    // mean of 20 and 10, of the target 1.5
    expect(decide(90, role(2, 10, 10)).want).toBe(3);
    // The first is as old as the window: still 15. At 181 s it is not: 10.
    expect(decide(180, role(2, 15, 15))).toMatchObject({ want: 3, why: '15 per engine is 1.50 of 10' });
    expect(decide(271, role(2, 6, 6)).want).toBe(2);
  });

  test('no metrics, no change', () => {
    const decide = byRole('aibrix-apa');
    expect(decide(0, role(3))).toEqual({ want: 3, why: 'no metrics' });
    decide(1, all(3, 20));
    expect(decide(2, role(3)).want).toBe(6);
    expect(decide(182, role(3))).toEqual({ want: 3, why: 'no metrics' });
  });

  test('bounds, and never to zero unless told to', () => {
    expect(byRole('aibrix-apa', { maxEngines: 5 })(0, all(4, 99))).toEqual({
      want: 5,
      why: '99 per engine is 9.90 of 10; at most 5',
    });
    expect(byRole('aibrix-apa', { minEngines: 3 })(0, all(4, 0)).want).toBe(3);
    expect(byRole('aibrix-apa', { minEngines: 0 })(0, all(1, 0)).want).toBe(1);
    expect(byRole('aibrix-apa', { minEngines: 0, scaleToZero: true })(0, all(1, 0)).want).toBe(0);
  });

  test('on the way down the least of the last 300 s: a longer window is sooner, not calmer', () => {
    const wants = (scaleDownCooldownSeconds: number) => {
      const decide = byRole('aibrix-apa', { scaleDownCooldownSeconds, observeWindowSeconds: 1 });
      decide(0, all(8, 2));
      return decide(60, all(8, 8)).want;
    };
    expect(wants(300)).toBe(4);
    expect(wants(60)).toBe(4);
    expect(wants(59)).toBe(7);
  });

  test('on the way up the most of its window, by default only of now', () => {
    const wants = (scaleUpCooldownSeconds: number) => {
      const decide = byRole('aibrix-apa', { scaleUpCooldownSeconds, observeWindowSeconds: 1 });
      decide(0, all(4, 20));
      return decide(30, all(4, 12)).want;
    };
    expect([wants(0), wants(30)]).toEqual([5, 8]);
  });
});

describe('aibrix-kpa', () => {
  const parameters = kpaSchema.parse({ target: 10 });
  test.each([
    // n, value, engines: the value over the target, not times n
    [1, 10, 1],
    [1, 11, 1],
    [1, 11.1, 2],
    [1, 35, 2],
    [2, 35, 4],
    [4, 35, 4],
    [8, 35, 4],
    [10, 35, 5],
    [4, 9, 4],
    [4, 8.9, 2],
    [4, 0, 2],
    [1, 0, 0],
    [0, 50, 1],
  ])('%i engines at %f each: %i', (n, value, expected) => {
    expect(kpaEngines(n, value, parameters)).toBe(expected);
  });

  test("four busy engines are cut to what one engine's mean needs: it is no total", () => {
    expect(byRole('aibrix-kpa')(0, all(4, 15)).want).toBe(2);
  });

  test('panic: more than twice the long window, and it takes the more of both', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10 });
    for (let s = 0; s <= 100; s += 10) decide(s, all(4, 10));
    // 180 s: (11 * 10 + 400) / 12 = 42.5; 60 s: (5 * 10 + 2 * 200...) see below
    const { want, why } = decide(160, all(4, 400));
    // the last 60 s: 10 (at 100 s) and 400: 205, which is 4.8 times 42.5
    expect(why).toBe('panic: 205 per engine after 42.5, target 10');
    expect(want).toBe(21);
  });

  test('exactly twice is no panic', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10 });
    decide(0, all(4, 10));
    decide(10, all(4, 10));
    // long: (10 + 10 + 40) / 3 = 20, short: 40
    expect(decide(80, all(4, 40)).why).toBe('20 per engine, target 10');
  });

  test('the panic does not hold: the next tick goes down again', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10, scaleDownCooldownSeconds: 0 });
    for (let s = 0; s <= 100; s += 10) decide(s, all(4, 10));
    expect(decide(160, all(4, 400)).want).toBe(21);
    const after = decide(221, all(21, 1));
    expect(after.want).toBeLessThan(21);
  });

  test('an idle fleet panics, and is halved', () => {
    expect(byRole('aibrix-kpa')(0, all(4, 0))).toMatchObject({
      want: 2,
      why: 'panic: 0 per engine after 0, target 10',
    });
  });
});

describe('k8s-hpa', () => {
  const parameters = { target: 10, tolerance: 0.1 };
  test.each([
    // engines, values, expected
    [3, [10, 10, 10], 3],
    [3, [11, 11, 11], 3],
    [3, [11.1, 11.1, 11.1], 4],
    [3, [9, 9, 9], 3],
    [3, [8, 8, 8], 3],
    [3, [6, 6, 6], 2],
    [3, [0, 0, 0], 0],
    [3, [20, 20, 20], 6],
    [3, [1000, 1000, 1000], 300],
    [3, [30, 0, 0], 3],
    [10, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7], 7],
    [1, [21], 3],
    // One is missing. Up: it is idle: 40/3 = 13.3, 4 engines. Down: it is at the target: 14/3, 2 engines.
    [3, [20, 20], 4],
    [3, [2, 2], 2],
    // Idle it takes the load below the tolerance: no change. 24/3 = 8 would even turn the direction.
    [3, [16, 16], 3],
    [3, [12, 12], 3],
    [3, [], 3],
    // Down, and at the target it is not outside the tolerance: (6 + 6 + 6 + 7 * 10) / 10 = 8.8 is; (9+9+9+9+9+8+10*4)/10 is not.
    [10, [6, 6, 6], 9],
    [10, [9, 9, 9, 9, 9, 8], 10],
  ])('%i engines, of whom %j told: %i', (engines, values, expected) => {
    expect(hpaEngines({ engines, values }, parameters)).toBe(expected);
  });

  test('on the way down the most of the last 300 s', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(8, 10)).want).toBe(8);
    expect(decide(100, all(8, 2))).toMatchObject({
      want: 8,
      why: '2 per engine, target 10; 2 is not stable yet',
    });
    expect(decide(200, all(8, 5)).want).toBe(8);
    // At 300 s the 8 is as old as the window, and out of it: what was wanted at 200 s is the most.
    expect(decide(299, all(8, 2)).want).toBe(8);
    expect(decide(300, all(8, 2)).want).toBe(4);
  });

  test('up at once, by 4 or twice in 15 s', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(1, 500))).toMatchObject({
      want: 5,
      why: '500 per engine, target 10; not more at once',
    });
    // The period began with 1: 5 is all it may have.
    expect(decide(10, all(5, 500)).want).toBe(5);
    expect(decide(16, all(5, 500)).want).toBe(10);
    expect(decide(32, all(10, 500)).want).toBe(20);
  });

  test('up at each tick where ticks are as far apart as the period is long', () => {
    const decide = byRole('k8s-hpa');
    const wanted = [1];
    for (const at of [0, 15, 30, 45]) wanted.push(decide(at, all(wanted.at(-1)!, 500)).want);
    expect(wanted).toEqual([1, 5, 10, 20, 40]);
  });

  test('who is still starting moved once, however often it looks meanwhile', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(4, 500)).want).toBe(8);
    for (const seconds of [5, 10, 15, 20]) decide(seconds, all(4, 500), true);
    // It is more than a period ago.
    expect(decide(25, all(8, 500)).want).toBe(16);
  });

  test('up only to the least of its window, where it has one', () => {
    const decide = byRole('k8s-hpa', { scaleUpStabilizationSeconds: 30 });
    // It begins with 4.
    expect(decide(0, all(4, 12)).want).toBe(4);
    expect(decide(10, all(4, 20)).want).toBe(4);
    expect(decide(31, all(4, 20)).want).toBe(8);
  });

  test('what it begins with stays for the window before a step down', () => {
    const decide = byRole('k8s-hpa');
    const want = (seconds: number) => decide(seconds, all(4, 1)).want;
    expect([0, 15, 299, 300].map(want)).toEqual([4, 4, 4, 1]);
  });

  test('who left in the period leaves room for as many more', () => {
    const decide = byRole('k8s-hpa', { scaleDownStabilizationSeconds: 0, periodSeconds: 60 });
    expect(decide(0, all(6, 1)).want).toBe(1);
    // 6 began the period: twice as many may be there.
    expect(decide(30, all(1, 500)).want).toBe(12);
  });

  test('down by a share at most, where one is given', () => {
    const decide = byRole('k8s-hpa', { scaleDownPercent: 50, scaleDownStabilizationSeconds: 0 });
    expect(decide(0, all(8, 1)).want).toBe(4);
    // 8 began the period: half of it is gone.
    expect(decide(10, all(4, 1)).want).toBe(4);
    expect(decide(16, all(4, 1)).want).toBe(2);
  });

  test('bounds and no metrics', () => {
    expect(byRole('k8s-hpa', { minEngines: 2, scaleDownStabilizationSeconds: 0 })(0, all(3, 0)).want).toBe(2);
    expect(byRole('k8s-hpa')(0, role(3))).toEqual({ want: 3, why: 'no metrics' });
  });
});

describe('dynamo-sla', () => {
  const given = {
    ttftMs: 500,
    itlMs: 50,
    prefillProfile: [
      { inputTokens: 1000, ttftMs: 100, tokensPerSecond: 10_000 },
      { inputTokens: 4000, ttftMs: 400, tokensPerSecond: 8000 },
    ],
    decodeProfile: [
      { contextTokens: 2000, itlMs: 20, tokensPerSecond: 500 },
      { contextTokens: 2000, itlMs: 40, tokensPerSecond: 900 },
      { contextTokens: 2000, itlMs: 80, tokensPerSecond: 1500 },
      { contextTokens: 8000, itlMs: 30, tokensPerSecond: 300 },
    ],
  };
  const parameters = dynamoSlaSchema.parse(given);
  const served = { requests: 1800, meanInputTokens: 3000, meanOutputTokens: 200, ttftMs: 400, itlMs: 40 };

  test.each([
    // 1800 * 3000 / 180 = 30,000 tokens/s at 8000 an engine: 3.75. 1800 * 200 / 180 = 2000 at 300 (context 3100 is above 2000).
    ['as profiled', {}, { prefill: 4, decode: 7 }],
    // Twice as slow is taken to be queueing, which more engines end: the correction is 1 at most.
    ['slower prefill', { ttftMs: 800 }, { prefill: 4, decode: 7 }],
    // Half the profiled time: prefix caches do half of it.
    ['faster prefill', { ttftMs: 200 }, { prefill: 2, decode: 7 }],
    // Context 1100: within 50 ms 900 tokens/s, measured as profiled.
    ['short prompts', { meanInputTokens: 1000 }, { prefill: 1, decode: 3 }],
    // 1.25 times the profiled 40 ms: the target is 40 ms, still 900 tokens/s. 1.5 times: 33 ms, 500 tokens/s.
    ['slower decode', { meanInputTokens: 1000, itlMs: 50 }, { prefill: 1, decode: 3 }],
    ['much slower decode', { meanInputTokens: 1000, itlMs: 60 }, { prefill: 1, decode: 4 }],
    // Half: the target is 100 ms, 1500 tokens/s.
    ['faster decode', { meanInputTokens: 1000, itlMs: 20 }, { prefill: 1, decode: 2 }],
    ['idle', { requests: 0 }, { prefill: 1, decode: 1 }],
  ])('throughput, %s', (_, more, expected) => {
    // Prompts of 1000 are profiled at 100 ms: measured 400, no correction.
    expect(enginesForThroughput({ ...served, ...more }, 180, parameters)).toEqual(expected);
    const { prefillProfile, decodeProfile } = parameters;
    const turned = { prefillProfile: prefillProfile.toReversed(), decodeProfile: decodeProfile.toReversed() };
    const unsorted = { ...parameters, ...turned };
    expect(enginesForThroughput({ ...served, ...more }, 180, unsorted)).toEqual(expected);
  });

  test.each([
    [
      { prefill: 4, decode: 4 },
      { prefill: 4, decode: 4 },
    ],
    [
      { prefill: 8, decode: 8 },
      { prefill: 4, decode: 4 },
    ],
    [
      { prefill: 4, decode: 7 },
      { prefill: 2, decode: 6 },
    ],
    [
      { prefill: 1, decode: 30 },
      { prefill: 1, decode: 7 },
    ],
    [
      { prefill: 30, decode: 1 },
      { prefill: 7, decode: 1 },
    ],
  ])('%o within 8: %o', (wanted, expected) => {
    expect(withinBudget(wanted, parameters)).toEqual(expected);
  });

  const wants = (
    scaler: ReturnType<typeof makeAutoscaler>,
    seconds: number,
    p: RoleLoad,
    d: RoleLoad,
    more = {},
  ) => {
    const { prefill, decode } = scaler.decide(at(seconds, p, { decode: d, ...more }));
    return [prefill.want, decode.want];
  };

  test('load moves by one: up when every engine is above, down when every one is below 0.8', () => {
    const one = (p: RoleLoad, d: RoleLoad) => wants(makeAutoscaler('dynamo-sla', given), 0, p, d);
    expect(one(role(2, 501, 600), role(2, 45, 60))).toEqual([3, 2]);
    expect(one(role(2, 500, 600), role(2, 51, 60))).toEqual([2, 3]);
    expect(one(role(2, 399, 10), role(2, 40, 10))).toEqual([1, 2]);
    expect(one(role(1, 1), role(2, 39.9, 10))).toEqual([1, 1]);
    expect(one(role(2), role(2))).toEqual([2, 2]);
  });

  test('every 5 s, and nothing while a change is not done', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const busy = role(1, 900);
    const calm = role(1, 45);
    expect(wants(scaler, 0, busy, calm)).toEqual([2, 1]);
    expect(wants(scaler, 60, busy, calm)).toEqual([2, 1]);
    const done = role(2, 900, 900);
    expect(wants(scaler, 61, done, calm)).toEqual([3, 1]);
    expect(wants(scaler, 62, role(3, 450, 450, 450), calm)).toEqual([3, 1]);
    expect(wants(scaler, 64, role(3, 900, 900, 900), calm)).toEqual([3, 1]);
    expect(wants(scaler, 66, role(3, 900, 900, 900), calm)).toEqual([4, 1]);
  });

  test('every 180 s throughput sets the floor, below which load does not go', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const [p, d] = [role(1, 450), role(1, 45)];
    expect(wants(scaler, 0, p, d)).toEqual([1, 1]);
    const load = { ...served, meanInputTokens: 1000, requests: 3600, ttftMs: 100 };
    // 20,000 prompt tokens/s at 10,000, 4000 generated at 900
    expect(wants(scaler, 180, p, d, { served: load })).toEqual([2, 5]);
    const [p2, d5] = [role(2, 1, 1), all(5, 1)];
    expect(wants(scaler, 185, p2, d5)).toEqual([2, 5]);
    // Nothing came for an interval: the floor is gone.
    expect(wants(scaler, 360, p2, d5)).toEqual([1, 4]);
  });

  test('answers of one token say nothing of the time a token takes, whenever they came', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const [p, d] = [role(1, 450), role(1, 45)];
    wants(scaler, 0, p, d);
    const slow = { ...served, meanInputTokens: 1000, itlMs: 60 };
    wants(scaler, 5, p, d, { served: { ...slow, meanOutputTokens: 1, itlMs: 0 } });
    // 3600 * 100.5 / 180 = 2010 tokens/s at 500: 1.5 times the profiled 40 ms, so within 33.
    expect(wants(scaler, 180, p, d, { served: slow })[1]).toBe(5);
  });
});

test('parameters that are wrong are named', () => {
  expect(() => makeAutoscaler('aibrix-apa', { prefill: { target: 0 }, decode: { target: 1 } })).toThrow(
    '--autoscale aibrix-apa, prefill, target is 0: ',
  );
  expect(() =>
    makeAutoscaler('k8s-hpa', { prefill: { target: 1, speed: 2 }, decode: { target: 1 } }),
  ).toThrow('speed');
  expect(() => makeAutoscaler('dynamo-sla', {})).toThrow('prefillProfile');
});

test('whatever comes: whole engines within the bounds, and the same for the same past', () => {
  const loads = fc.array(
    fc.record({
      engines: fc.integer({ min: 1, max: 9 }),
      values: fc.array(fc.nat({ max: 5000 }), { maxLength: 9 }),
      seconds: fc.nat({ max: 200 }),
    }),
    { minLength: 1, maxLength: 30 },
  );
  const profile = {
    prefillProfile: [{ inputTokens: 100, ttftMs: 9, tokensPerSecond: 99 }],
    decodeProfile: [{ contextTokens: 9, itlMs: 9, tokensPerSecond: 9 }],
  };
  const bounded = { target: 10, minEngines: 2, maxEngines: 6 };
  for (const name of AUTOSCALERS) {
    const given =
      name === 'dynamo-sla'
        ? { ...profile, minEndpoint: 2, maxEngines: 12 }
        : { prefill: bounded, decode: bounded };
    fc.assert(
      fc.property(loads, (all) => {
        const run = () => {
          const scaler = makeAutoscaler(name, given);
          let seconds = 0;
          return all.map(({ engines, values, seconds: more }) => {
            seconds += more;
            return scaler.decide(at(seconds, { engines, values: values.slice(0, engines) }));
          });
        };
        for (const { prefill } of run()) {
          expect(Number.isInteger(prefill.want)).toBe(true);
          if (prefill.why !== 'no metrics' && name !== 'dynamo-sla') {
            expect(prefill.want).toBeGreaterThanOrEqual(2);
            expect(prefill.want).toBeLessThanOrEqual(6);
          }
          expect(prefill.why).not.toMatch(/NaN|undefined|Infinity/);
        }
        expect(run()).toEqual(run());
      }),
      { numRuns: 100 },
    );
  }
});
