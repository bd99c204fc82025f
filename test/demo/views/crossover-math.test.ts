import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  bestThreshold,
  type CrossoverPoint,
  crossover,
  passInWords,
  regretMs,
  regretPieces,
  totalRegretMs,
} from '../../../demo/src/views/crossover/crossover-math.ts';

const point = (tokens: number, pullMs: number, recomputeMs: number): CrossoverPoint => ({
  tokens,
  pullMs,
  recomputeMs,
});
const points = [point(16, 20, 8), point(32, 21, 17), point(64, 22, 34), point(128, 25, 70)];

it('a sweep counts its turns in each pass', () => {
  const unmeasured = [32, 64].map((tokens) => ({ tokens, pullMs: null, recomputeMs: null }));
  const said = (done: number, total: number) => passInWords({ done, total, points: unmeasured });
  expect(said(4, 4)).toBe('Measuring: pass 1, 4 of 4');
  expect(said(4, 8)).toBe('Measuring: pass 2, 0 of 4');
  expect(said(11, 12)).toBe('Measuring: pass 3, 3 of 4');
});

describe('the crossover', () => {
  it('is where the lines through the points cross, by linear interpolation', () => {
    // The lead of pulling is -4 ms at 32 and +12 ms at 64: a quarter of the way.
    expect(crossover(points)).toBeCloseTo(40);
  });

  it('is always, never or null if the lines do not cross', () => {
    expect(crossover([point(16, 30, 8), point(64, 40, 20)])).toBe('never');
    expect(crossover([point(16, 3, 8), point(64, 4, 20)])).toBe('always');
    expect(crossover([])).toBeNull();
  });
});

describe('regret', () => {
  it('is the extra time of the threshold’s choice over the better one', () => {
    expect(regretMs(points[0]!, 0)).toBe(12);
    expect(regretMs(points[0]!, 32)).toBe(0);
    expect(regretMs(points[3]!, 1000)).toBe(45);
    expect(totalRegretMs(points, 0)).toBe(12 + 4);
  });

  it('is least at the best threshold', () => {
    const made = fc.array(fc.record({ tokens: fc.nat(500), pullMs: fc.nat(100), recomputeMs: fc.nat(100) }), {
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(made, fc.nat(600), (list, other) => {
        expect(totalRegretMs(list, bestThreshold(list)!)).toBeLessThanOrEqual(totalRegretMs(list, other));
      }),
    );
    expect(bestThreshold(points)).toBe(64);
  });

  it('is shaded only where the slower way is taken', () => {
    const [a, b] = [
      { at: 32, a: 21, b: 17 },
      { at: 64, a: 22, b: 34 },
    ];
    // Threshold 0 always pulls: shaded up to the crossing at 40.
    expect(regretPieces(a, b, 0).map(([from, to]) => [from.at, to.at])).toEqual([[32, 40]]);
    // Threshold 64 always computes here: shaded from the crossing on.
    expect(regretPieces(a, b, 64).map(([from, to]) => [from.at, to.at])).toEqual([[40, 64]]);
    // At the crossing nothing is lost.
    expect(regretPieces(a, b, 40)).toEqual([]);
    // A threshold between the crossing and 64.
    expect(regretPieces(a, b, 48).map(([from, to]) => [from.at, to.at])).toEqual([[40, 48]]);
  });
});
