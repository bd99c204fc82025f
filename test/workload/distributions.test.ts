import { describe, expect, test } from 'vitest';
import { type Distribution, sample, underlyingNormal } from '../../src/workload/distributions.ts';
import { Random } from '../../src/workload/random.ts';

const COUNT = 40_000;
const moments = (values: readonly number[]) => {
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  const variance = values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length;
  return { mean, variance };
};
const draw = (distribution: Distribution, seed = 1) => sample(distribution, COUNT, new Random(seed));

/** Within five standard errors of the mean. The seed is fixed, so the result is too. */
const near = (actual: number, expected: number, variance: number) =>
  expect(Math.abs(actual - expected)).toBeLessThan(5 * Math.sqrt(variance / COUNT));

describe('samples', () => {
  test('equal the value of a constant distribution', () => {
    expect(new Set(draw({ distribution: 'constant', value: 500 }))).toEqual(new Set([500]));
  });

  test('have the mean and variance of a uniform distribution, and include both ends', () => {
    const values = draw({ distribution: 'uniform', min: 12, max: 18 });
    near(moments(values).mean, 15, 4);
    expect(moments(values).variance).toBeCloseTo((7 ** 2 - 1) / 12, 1);
    expect([Math.min(...values), Math.max(...values)]).toEqual([12, 18]);
  });

  test.each([3, 80, 1000])('have the mean and variance of a Poisson distribution with mean %d', (alpha) => {
    const { mean, variance } = moments(draw({ distribution: 'poisson', alpha }));
    near(mean, alpha, alpha);
    // The variance of a sample variance is about 2 alpha² / n.
    expect(Math.abs(variance - alpha)).toBeLessThan(5 * alpha * Math.sqrt(3 / COUNT));
  });

  test('have the mean and the share of ones of a Zipf distribution, and respect max', () => {
    const alpha = 4;
    const zeta = (s: number) =>
      Array.from({ length: 100_000 }, (_, i) => (i + 1) ** -s).reduce((a, b) => a + b);
    const mean = zeta(alpha - 1) / zeta(alpha);
    const variance = zeta(alpha - 2) / zeta(alpha) - mean ** 2;
    const values = draw({ distribution: 'zipf', alpha });
    near(moments(values).mean, mean, variance);
    near(values.filter((x) => x === 1).length / COUNT, 1 / zeta(alpha), 0.25);
    expect(Math.max(...draw({ distribution: 'zipf', alpha: 1.5, max: 40 }))).toBe(40);
  });

  test('have the mean and sigma of the logarithm that a lognormal distribution gives', () => {
    const logs = draw({ distribution: 'lognormal', mean: 8, sigma: 0.5 }).map(Math.log);
    near(moments(logs).mean, 8, 0.25);
    expect(moments(logs).variance).toBeCloseTo(0.25, 2);
  });

  test('have exactly the average that a lognormal distribution gives, and about its median', () => {
    const values = draw({ distribution: 'lognormal', average: 4000 });
    expect(Math.abs(moments(values).mean - 4000)).toBeLessThan(0.5);
    const median = values.toSorted((a, b) => a - b)[COUNT / 2]!;
    expect(median / 4000).toBeCloseTo(0.85, 1);
    const { mu, sigma } = underlyingNormal({ distribution: 'lognormal', average: 4000, median_ratio: 0.6 });
    expect(Math.exp(mu + sigma ** 2 / 2)).toBeCloseTo(4000);
    expect(Math.exp(mu)).toBeCloseTo(2400);
    expect(Math.max(...draw({ distribution: 'lognormal', average: 4000, max: 4500 }))).toBe(4500);
  });

  test('are the same for the same seed, and differ for another', () => {
    const distribution: Distribution = { distribution: 'lognormal', average: 100 };
    expect(draw(distribution, 3)).toEqual(draw(distribution, 3));
    expect(draw(distribution, 3)).not.toEqual(draw(distribution, 4));
  });

  test('have the given mean for exponential gaps', () => {
    const random = new Random(9);
    near(moments(Array.from({ length: COUNT }, () => random.exponential(20))).mean, 20, 400);
  });
});
