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
/** Decides for the P role only: D has no metrics, so it keeps its size. */
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
  ])('scales %i engines at %f times the target to %i', (n, ratio, expected) => {
    expect(apaEngines(n, ratio, RATES as never)).toBe(expected);
  });

  test('averages the value over engines and over a window of 180 s', () => {
    const decide = byRole('aibrix-apa');
    expect(decide(0, role(2, 30, 10)).want).toBe(4);
    // mean of 20 and 10, of the target 1.5
    expect(decide(90, role(2, 10, 10)).want).toBe(3);
    // A sample exactly as old as the window still counts, so the mean is 15. One that is 181 s old does not.
    expect(decide(180, role(2, 15, 15))).toMatchObject({ want: 3, why: '15 per engine is 1.50 of 10' });
    expect(decide(271, role(2, 6, 6)).want).toBe(2);
  });

  test('changes nothing without metrics', () => {
    const decide = byRole('aibrix-apa');
    expect(decide(0, role(3))).toEqual({ want: 3, why: 'no metrics' });
    decide(1, all(3, 20));
    expect(decide(2, role(3)).want).toBe(6);
    expect(decide(182, role(3))).toEqual({ want: 3, why: 'no metrics' });
  });

  test('stays within its bounds, and scales to zero only with scaleToZero', () => {
    expect(byRole('aibrix-apa', { maxEngines: 5 })(0, all(4, 99))).toEqual({
      want: 5,
      why: '99 per engine is 9.90 of 10; at most 5',
    });
    expect(byRole('aibrix-apa', { minEngines: 3 })(0, all(4, 0)).want).toBe(3);
    expect(byRole('aibrix-apa', { minEngines: 0 })(0, all(1, 0)).want).toBe(1);
    expect(byRole('aibrix-apa', { minEngines: 0, scaleToZero: true })(0, all(1, 0)).want).toBe(0);
  });

  test('scales down to the least wanted in its window of 300 s, so a longer window acts sooner', () => {
    const wants = (scaleDownCooldownSeconds: number) => {
      const decide = byRole('aibrix-apa', { scaleDownCooldownSeconds, observeWindowSeconds: 1 });
      decide(0, all(8, 2));
      return decide(60, all(8, 8)).want;
    };
    expect(wants(300)).toBe(4);
    expect(wants(60)).toBe(4);
    expect(wants(59)).toBe(7);
  });

  test('scales up to the most wanted in its window, which is by default only the current value', () => {
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
    // n, value, engines: value / target, not multiplied by n
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
  ])('scales %i engines at %f each to %i', (n, value, expected) => {
    expect(kpaEngines(n, value, parameters)).toBe(expected);
  });

  test('scales four busy engines to two, because it divides their mean, not their total, by the target', () => {
    expect(byRole('aibrix-kpa')(0, all(4, 15)).want).toBe(2);
  });

  test('panics if the short window is above twice the long one, and then uses the greater', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10 });
    for (let s = 0; s <= 100; s += 10) decide(s, all(4, 10));
    // The last 180 s: (11 * 10 + 400) / 12 = 42.5.
    const { want, why } = decide(160, all(4, 400));
    // The last 60 s: 10 (at 100 s) and 400, so 205, which is 4.8 times 42.5.
    expect(why).toBe('panic: 205 per engine after 42.5, target 10');
    expect(want).toBe(21);
  });

  test('does not panic at exactly twice the long window', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10 });
    decide(0, all(4, 10));
    decide(10, all(4, 10));
    // long: (10 + 10 + 40) / 3 = 20, short: 40
    expect(decide(80, all(4, 40)).why).toBe('20 per engine, target 10');
  });

  test('scales down again after a panic', () => {
    const decide = byRole('aibrix-kpa', { maxScaleUpRate: 10, scaleDownCooldownSeconds: 0 });
    for (let s = 0; s <= 100; s += 10) decide(s, all(4, 10));
    expect(decide(160, all(4, 400)).want).toBe(21);
    const after = decide(221, all(21, 1));
    expect(after.want).toBeLessThan(21);
  });

  test('panics on an idle fleet and halves it', () => {
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
    // One value is missing. Scaling up counts it as 0: 40/3 = 13.3, 4 engines. Scaling down counts it as the target:
    // 14/3, 2 engines.
    [3, [20, 20], 4],
    [3, [2, 2], 2],
    // Counted as 0, it brings the load within the tolerance: no change. 24/3 = 8 would even reverse the direction.
    [3, [16, 16], 3],
    [3, [12, 12], 3],
    [3, [], 3],
    // Scaling down counts missing values as the target: (6 + 6 + 6 + 7 * 10) / 10 = 8.8 is outside the tolerance,
    // (9+9+9+9+9+8+10*4)/10 is not.
    [10, [6, 6, 6], 9],
    [10, [9, 9, 9, 9, 9, 8], 10],
  ])('scales %i engines with reported values %j to %i', (engines, values, expected) => {
    expect(hpaEngines({ engines, values }, parameters)).toBe(expected);
  });

  test('scales down to the most wanted in the last 300 s', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(8, 10)).want).toBe(8);
    expect(decide(100, all(8, 2))).toMatchObject({
      want: 8,
      why: '2 per engine, target 10; 2 has not been wanted for long enough',
    });
    expect(decide(200, all(8, 5)).want).toBe(8);
    // At 300 s the 8 is as old as the window and no longer in it, so the 4 wanted at 200 s is the most.
    expect(decide(299, all(8, 2)).want).toBe(8);
    expect(decide(300, all(8, 2)).want).toBe(4);
  });

  test('scales up at once, by 4 engines or to double their number in 15 s', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(1, 500))).toMatchObject({
      want: 5,
      why: '500 per engine, target 10; not more at once',
    });
    // The period began with 1, so at most 5 are allowed.
    expect(decide(10, all(5, 500)).want).toBe(5);
    expect(decide(16, all(5, 500)).want).toBe(10);
    expect(decide(32, all(10, 500)).want).toBe(20);
  });

  test('scales up at every tick if ticks are one period apart', () => {
    const decide = byRole('k8s-hpa');
    const wanted = [1];
    for (const at of [0, 15, 30, 45]) wanted.push(decide(at, all(wanted.at(-1)!, 500)).want);
    expect(wanted).toEqual([1, 5, 10, 20, 40]);
  });

  test('counts a scale-up under way once, however often it decides in the meantime', () => {
    const decide = byRole('k8s-hpa');
    expect(decide(0, all(4, 500)).want).toBe(8);
    for (const seconds of [5, 10, 15, 20]) decide(seconds, all(4, 500), true);
    // That was more than a period ago.
    expect(decide(25, all(8, 500)).want).toBe(16);
  });

  test('scales up only to the least wanted in its window, if it has one', () => {
    const decide = byRole('k8s-hpa', { scaleUpStabilizationSeconds: 30 });
    // The window begins with 4.
    expect(decide(0, all(4, 12)).want).toBe(4);
    expect(decide(10, all(4, 20)).want).toBe(4);
    expect(decide(31, all(4, 20)).want).toBe(8);
  });

  test('keeps the initial number of engines for a whole window before it scales down', () => {
    const decide = byRole('k8s-hpa');
    const want = (seconds: number) => decide(seconds, all(4, 1)).want;
    expect([0, 15, 299, 300].map(want)).toEqual([4, 4, 4, 1]);
  });

  test('limits a scale-up by the engines at the start of the period, including any that left since', () => {
    const decide = byRole('k8s-hpa', { scaleDownStabilizationSeconds: 0, periodSeconds: 60 });
    expect(decide(0, all(6, 1)).want).toBe(1);
    // The period began with 6, so at most 12 are allowed.
    expect(decide(30, all(1, 500)).want).toBe(12);
  });

  test('scales down by at most scaleDownPercent, if that is given', () => {
    const decide = byRole('k8s-hpa', { scaleDownPercent: 50, scaleDownStabilizationSeconds: 0 });
    expect(decide(0, all(8, 1)).want).toBe(4);
    // The period began with 8, and half of them are gone.
    expect(decide(10, all(4, 1)).want).toBe(4);
    expect(decide(16, all(4, 1)).want).toBe(2);
  });

  test('stays within its bounds, and changes nothing without metrics', () => {
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
    // 1800 * 3000 / 180 = 30,000 tokens/s at 8000 per engine: 3.75. 1800 * 200 / 180 = 2000 at 300 (context 3100 > 2000).
    ['as profiled', {}, { prefill: 4, decode: 7 }],
    // Twice as slow is taken for queueing, which more engines would end: the correction is at most 1.
    ['slower prefill', { ttftMs: 800 }, { prefill: 4, decode: 7 }],
    // Half the profiled time: prefix caches save half of the work.
    ['faster prefill', { ttftMs: 200 }, { prefill: 2, decode: 7 }],
    // Context 1100: 900 tokens/s within 50 ms, measured as profiled.
    ['short prompts', { meanInputTokens: 1000 }, { prefill: 1, decode: 3 }],
    // 1.25 times the profiled 40 ms: the target is 40 ms, still 900 tokens/s. 1.5 times: 33 ms, 500 tokens/s.
    ['slower decode', { meanInputTokens: 1000, itlMs: 50 }, { prefill: 1, decode: 3 }],
    ['much slower decode', { meanInputTokens: 1000, itlMs: 60 }, { prefill: 1, decode: 4 }],
    // Half: the target is 100 ms, 1500 tokens/s.
    ['faster decode', { meanInputTokens: 1000, itlMs: 20 }, { prefill: 1, decode: 2 }],
    ['idle', { requests: 0 }, { prefill: 1, decode: 1 }],
  ])('sizes the fleet for throughput: %s', (_, more, expected) => {
    // Prompts of 1000 tokens are profiled at 100 ms but measured at 400 ms: no correction.
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
  ])('fits %o into a budget of 8 engines as %o', (wanted, expected) => {
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

  test('moves by one engine: up if all exceed the target, down if all are below 0.8 of it', () => {
    const one = (p: RoleLoad, d: RoleLoad) => wants(makeAutoscaler('dynamo-sla', given), 0, p, d);
    expect(one(role(2, 501, 600), role(2, 45, 60))).toEqual([3, 2]);
    expect(one(role(2, 500, 600), role(2, 51, 60))).toEqual([2, 3]);
    expect(one(role(2, 399, 10), role(2, 40, 10))).toEqual([1, 2]);
    expect(one(role(1, 1), role(2, 39.9, 10))).toEqual([1, 1]);
    expect(one(role(2), role(2))).toEqual([2, 2]);
  });

  test('decides by load every 5 s, and never while a change is under way', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const busy = role(1, 900);
    const calm = role(1, 45);
    expect(wants(scaler, 0, busy, calm)).toEqual([2, 1]);
    expect(wants(scaler, 60, busy, calm, { changing: true })).toEqual([2, 1]);
    const done = role(2, 900, 900);
    expect(wants(scaler, 61, done, calm)).toEqual([3, 1]);
    expect(wants(scaler, 62, role(3, 450, 450, 450), calm)).toEqual([3, 1]);
    expect(wants(scaler, 64, role(3, 900, 900, 900), calm)).toEqual([3, 1]);
    expect(wants(scaler, 66, role(3, 900, 900, 900), calm)).toEqual([4, 1]);
  });

  test("stands by its own change while that is under way, and by somebody else's once it is over", () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const [busy, calm] = [role(1, 900), role(1, 45)];
    const changing = { changing: true };
    expect(wants(scaler, 0, busy, calm)).toEqual([2, 1]);
    expect(wants(scaler, 5, busy, calm, changing)).toEqual([2, 1]);
    // It failed.
    expect(wants(scaler, 6, busy, calm)).toEqual([2, 1]);
    const calmP = role(2, 450, 450);
    expect(wants(scaler, 11, calmP, calm)).toEqual([2, 1]);
    expect(wants(scaler, 16, calmP, calm, changing)).toEqual([2, 1]);
    const { decode } = scaler.decide(at(21, calmP, { decode: role(3, 45), ...changing }));
    expect(decode).toEqual({ want: 3, why: 'a change is in progress' });
    expect(wants(scaler, 22, calmP, role(3, 45, 45, 45))).toEqual([2, 3]);
  });

  test('rounds what it compared with', () => {
    const scaler = makeAutoscaler('dynamo-sla', { ...given, itlMs: 3 });
    expect(scaler.decide(at(0, role(1), { decode: role(2, 1, 2) })).decode.why).toBe(
      'every engine below 2.4 ms',
    );
  });

  test('sets a floor from throughput every 180 s, below which load does not scale', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const [p, d] = [role(1, 450), role(1, 45)];
    expect(wants(scaler, 0, p, d)).toEqual([1, 1]);
    const load = { ...served, meanInputTokens: 1000, requests: 3600, ttftMs: 100 };
    // 20,000 prompt tokens/s at 10,000, 4000 generated at 900
    expect(wants(scaler, 180, p, d, { served: load })).toEqual([2, 5]);
    const [p2, d5] = [role(2, 1, 1), all(5, 1)];
    expect(wants(scaler, 185, p2, d5)).toEqual([2, 5]);
    // An interval without requests removes the floor.
    expect(wants(scaler, 360, p2, d5)).toEqual([1, 4]);
  });

  test('ignores answers of one token when it corrects the time per token', () => {
    const scaler = makeAutoscaler('dynamo-sla', given);
    const [p, d] = [role(1, 450), role(1, 45)];
    wants(scaler, 0, p, d);
    const slow = { ...served, meanInputTokens: 1000, itlMs: 60 };
    wants(scaler, 5, p, d, { served: { ...slow, meanOutputTokens: 1, itlMs: 0 } });
    // 3600 * 100.5 / 180 = 2010 tokens/s at 500: 1.5 times the profiled 40 ms, so within 33.
    expect(wants(scaler, 180, p, d, { served: slow })[1]).toBe(5);
  });
});

test('invalid and missing parameters are named in the error', () => {
  expect(() => makeAutoscaler('aibrix-apa', { prefill: { target: 0 }, decode: { target: 1 } })).toThrow(
    '--autoscale aibrix-apa, prefill, target is 0: ',
  );
  expect(() =>
    makeAutoscaler('k8s-hpa', { prefill: { target: 1, speed: 2 }, decode: { target: 1 } }),
  ).toThrow('speed');
  expect(() => makeAutoscaler('dynamo-sla', {})).toThrow('prefillProfile');
});

test('any loads lead to whole numbers of engines within the bounds, and always to the same ones', () => {
  const loads = fc.array(
    fc.record({
      engines: fc.integer({ min: 1, max: 9 }),
      values: fc.array(fc.nat({ max: 5000 }), { maxLength: 9 }),
      seconds: fc.nat({ max: 200 }),
    }),
    { minLength: 1, maxLength: 30, size: 'max' },
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
