import { sampleCorrelation } from 'simple-statistics';
import { describe, expect, test } from 'vitest';
import { STREAM } from '../../src/seeded.ts';
import { Random } from '../../src/workload/random.ts';

const COUNT = 1000;
/** In standard errors. Seeds are fixed, so a test that passes once always passes. */
const FAR = 4;
/** The Kolmogorov-Smirnov statistic that one sample in a thousand exceeds. */
const KS = 1.95;

const firstDraws = (each: (i: number) => Random): number[][] => {
  const draws = Array.from({ length: COUNT }, (_, i) => {
    const random = each(i);
    return [random.float(), random.float(), random.float()];
  });
  return [0, 1, 2].map((place) => draws.map((drawn) => drawn[place]!));
};

const farthestFromUniform = (values: readonly number[]): number =>
  Math.max(
    ...values
      .toSorted((a, b) => a - b)
      .map((value, i) => Math.max(value - i / COUNT, (i + 1) / COUNT - value)),
  );

describe.each<[string, (i: number) => Random]>([
  ['seeds from 0', (i) => new Random(i)],
  ['seeds below 0', (i) => new Random(-1 - i)],
  ['the largest seeds', (i) => new Random(0xffff_ffff - i)],
  ['indices of one seed', (i) => new Random(0, i)],
])('first draws of %s', (_name, each) => {
  const places = firstDraws(each);

  test('are uniform', () => {
    for (const drawn of places) {
      const mean = drawn.reduce((sum, value) => sum + value, 0) / COUNT;
      expect(Math.abs(mean - 0.5)).toBeLessThan(FAR / Math.sqrt(12 * COUNT));
      expect(Math.min(...drawn)).toBeLessThan(0.01);
      expect(Math.max(...drawn)).toBeGreaterThan(0.99);
      expect(farthestFromUniform(drawn)).toBeLessThan(KS / Math.sqrt(COUNT));
    }
  });

  test('are uncorrelated with those of neighbours, and with each other', () => {
    const unrelated = (a: readonly number[], b: readonly number[]) =>
      expect(Math.abs(sampleCorrelation([...a], [...b]))).toBeLessThan(FAR / Math.sqrt(COUNT));
    for (const drawn of places) unrelated(drawn.slice(1), drawn.slice(0, -1));
    unrelated(places[0]!, places[1]!);
    unrelated(places[1]!, places[2]!);
  });
});

test('the same seed and index draw the same, index 0 draws as none does, and other indices differ', () => {
  const draws = (...given: ConstructorParameters<typeof Random>) => {
    const random = new Random(...given);
    return Array.from({ length: 5 }, () => random.float());
  };
  expect(draws(7)).toEqual(draws(7));
  expect(draws(7, 0)).toEqual(draws(7));
  expect(draws(7, 1)).not.toEqual(draws(7));
  // An index is not a step of the seed.
  expect(draws(7, 1)).not.toEqual(draws(8));
});

test('all streams of a seed have different numbers', () => {
  const streams = Object.values(STREAM);
  expect(new Set(streams).size).toBe(streams.length);
});
