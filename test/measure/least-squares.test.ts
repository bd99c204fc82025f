import { uniformInt } from 'pure-rand/distribution/uniformInt';
import { describe, expect, it } from 'vitest';
import { fitNonNegative, neverLess } from '../../src/measure/least-squares.ts';
import { seededGenerator } from '../../src/seeded.ts';

const truth = [25, 0.35, 0.0004, 12];
const rows = [1, 2, 3, 4, 5].flatMap((round) =>
  [16, 32, 64, 128, 256, 512, 1024].flatMap((tokens) =>
    [0, 1].map((pulled) => {
      const computed = pulled ? 17 : tokens + 17;
      return { x: [1, computed, (computed * (tokens + 17)) / 2, pulled], round };
    }),
  ),
);
const value = (x: readonly number[]): number => x.reduce((sum, v, i) => sum + v * truth[i]!, 0);

describe('fitNonNegative', () => {
  it('finds known coefficients of very different sizes', () => {
    const fit = fitNonNegative(
      rows.map(({ x }) => x),
      rows.map(({ x }) => value(x)),
    );
    for (const [i, found] of fit.coefficients.entries()) expect(found / truth[i]!).toBeCloseTo(1, 6);
    expect(fit.r2).toBeCloseTo(1, 9);
    expect(fit.medianError).toBeCloseTo(0, 9);
  });

  it('finds coefficients in noise, and a few outliers change them little', () => {
    const noisy = rows.map(({ x, round }, i) => {
      const wild = i % 17 === 3 ? 3 : 1;
      return value(x) * wild * (1 + 0.02 * Math.sin(i * 37.7 + round));
    });
    const { coefficients, medianError } = fitNonNegative(
      rows.map(({ x }) => x),
      noisy,
    );
    expect(coefficients[0]! / truth[0]!).toBeCloseTo(1, 0);
    expect(Math.abs(coefficients[1]! / truth[1]! - 1)).toBeLessThan(0.08);
    expect(Math.abs(coefficients[3]! / truth[3]! - 1)).toBeLessThan(0.15);
    expect(medianError).toBeLessThan(0.03);
  });

  describe('on a line with noise', () => {
    /** Errors of the two coefficients, as factors. Each value comes twice, with noise of opposite shares from 0 to 1. */
    const fitOf = (noise: (share: number) => number) => {
      const random = seededGenerator(3);
      const draw = (): number => (uniformInt(random, 0, 999_999) + 0.5) / 1e6;
      const samples = Array.from({ length: 500 }, () => {
        const [x, share] = [1000 * draw() ** 2, draw()];
        return [share, 1 - share].map((each) => ({ x, ms: (5 + 0.1 * x) * noise(each) }));
      }).flat();
      const { coefficients } = fitNonNegative(
        samples.map(({ x }) => [1, x]),
        samples.map(({ ms }) => ms),
      );
      return { fixed: coefficients[0]! / 5, slope: coefficients[1]! / 0.1 };
    };

    it.each([0.1, 0.3, 0.6, 0.9])('finds it, if each value is up to %d of it smaller or larger', (most) => {
      const { fixed, slope } = fitOf((share) => 1 + most * (2 * share - 1));
      expect(Math.abs(fixed - 1)).toBeLessThan(0.03);
      expect(Math.abs(slope - 1)).toBeLessThan(0.03);
    });

    it('finds one between the median and the mean, if values are by the same factor smaller or larger', () => {
      // e^-1.2 to e^1.2.
      const { fixed, slope } = fitOf((share) => Math.exp(2.4 * share - 1.2));
      const mean = Math.sinh(1.2) / 1.2;
      for (const found of [fixed, slope]) {
        expect(found).toBeGreaterThan(1);
        expect(found).toBeLessThan(mean);
      }
    });

    it('finds it whatever a single value near 0 is measured at', () => {
      let i = 0;
      const { fixed, slope } = fitOf(() => (i++ === 7 ? 1e-6 : 1));
      expect(fixed).toBeCloseTo(1, 6);
      expect(slope).toBeCloseTo(1, 6);
    });
  });

  it('gives 0 rather than a negative coefficient', () => {
    const list = [1, 2, 3, 4, 5, 6];
    const fit = fitNonNegative(
      list.map((n) => [1, n, 7 - n]),
      list.map((n) => 10 + 2 * n - 0.5 * (7 - n)),
    );
    expect(Math.min(...fit.coefficients)).toBeGreaterThanOrEqual(0);
    expect(fit.r2).toBeGreaterThan(0.9);
  });

  it('fits exactly if one column is a multiple of another, wherever they are', () => {
    const random = seededGenerator(1);
    const draw = (from: number, to: number): number => uniformInt(random, from, to);
    const width = 4;
    for (let problem = 0; problem < 1000; problem++) {
      const truth = Array.from({ length: width }, () => draw(0, 100) / 10);
      const [copy, of] = [draw(0, width - 1), draw(0, width - 1)];
      const factor = draw(1, 500) / 100;
      const columns = Array.from({ length: draw(5, 12) }, () => {
        const row = Array.from({ length: width }, (_, i) => (i === 0 ? 1 : draw(1, 100)));
        return row.map((value, i) => (i === copy && copy !== of ? factor * row[of]! : value));
      });
      const times = columns.map((row) => 1 + row.reduce((sum, value, i) => sum + value * truth[i]!, 0));
      const { medianError } = fitNonNegative(
        columns.map((row) => [...row, 1]),
        times,
      );
      expect(medianError).toBeLessThan(1e-6);
    }
  });

  it('counts a cost as fixed if it comes first and no sample tells it from another', () => {
    const { coefficients } = fitNonNegative(
      [1, 2, 3].map(() => [1, 4096]),
      [3, 4, 100],
    );
    expect(coefficients[0]).toBeGreaterThan(3);
    expect(coefficients[1]).toBe(0);
  });

  it('refuses fewer samples than coefficients', () => {
    expect(() => fitNonNegative([[1, 2]], [3])).toThrow('1 samples cannot fit 2 coefficients');
  });
});

describe('neverLess', () => {
  it('averages neighbours that fall and leaves values that grow', () => {
    expect(neverLess([1, 2, 3])).toEqual([1, 2, 3]);
    expect(neverLess([4, 6, 5, 4, 9])).toEqual([4, 5, 5, 5, 9]);
    // An average that falls below the value before it is averaged with that one too.
    expect(neverLess([5, 4, 1])).toEqual([10 / 3, 10 / 3, 10 / 3]);
    expect(neverLess([])).toEqual([]);
  });
});
