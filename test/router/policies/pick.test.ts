import { expect, it } from 'vitest';
import { leastOf, maxOf, minOf, weightedRandom } from '../../../src/router/policies/pick.ts';

/** Returns the given numbers one after the other. */
const draws =
  (...given: number[]) =>
  () =>
    given.shift()!;
const score = (each: string) => Number(each.slice(1));

it('leastOf() picks the least without a draw, and each of several equals with equal probability', () => {
  expect(leastOf(['a3', 'b1', 'c2'], score, draws())).toBe('b1');
  expect(leastOf([], score, draws())).toBeUndefined();
  // The second of two replaces the first in half of the draws, the third of three in a third of the draws.
  expect(leastOf(['a1', 'b1'], score, draws(0.49))).toBe('b1');
  expect(leastOf(['a1', 'b1'], score, draws(0.5))).toBe('a1');
  expect(leastOf(['a1', 'b1', 'c1'], score, draws(0.9, 0.33))).toBe('c1');
  expect(leastOf(['a1', 'b1', 'c1'], score, draws(0.9, 0.34))).toBe('a1');
  // A new least starts counting again.
  expect(leastOf(['a2', 'b2', 'c1', 'd1'], score, draws(0.9, 0.49))).toBe('d1');
  expect(leastOf(['a2', 'b2', 'c1', 'd1'], score, draws(0.9, 0.5))).toBe('c1');
});

it('leastOf() picks one even if all scores are infinite', () => {
  const worst = () => Number.POSITIVE_INFINITY;
  expect(leastOf(['a', 'b'], worst, draws(0.6))).toBe('a');
  expect(leastOf(['a', 'b'], worst, draws(0.4))).toBe('b');
});

it('weightedRandom() draws in proportion to weight, and evenly if no weight is positive', () => {
  const weights = ['a1', 'b0', 'c3'];
  expect([0, 0.24, 0.25, 0.99].map((draw) => weightedRandom(weights, score, () => draw))).toEqual([
    ...['a1', 'a1', 'c3', 'c3'],
  ]);
  expect(weightedRandom(['a1', 'b0'], score, () => 1)).toBe('a1');
  expect(weightedRandom(['b0', 'a1'], score, () => 0)).toBe('a1');
  expect([0, 0.5, 0.99].map((draw) => weightedRandom(['a0', 'b-2'], score, () => draw))).toEqual([
    'a0',
    'b-2',
    'b-2',
  ]);
});

it('maxOf() and minOf() return the greatest and the least value', () => {
  expect([maxOf(['a1', 'b7', 'c3'], score), minOf(['a4', 'b2', 'c3'], score)]).toEqual([7, 2]);
});
