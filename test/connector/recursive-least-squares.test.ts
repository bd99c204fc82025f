import fc from 'fast-check';
import { expect, test } from 'vitest';
import { RecursiveLeastSquares } from '../../src/connector/policy/recursive-least-squares.ts';

test('coefficients stay finite and not negative, whatever is observed', () => {
  const observation = fc.record({
    a: fc.constantFrom(0, 1, 2),
    bytes: fc.constantFrom(0, 1024, 1e6, 1e8),
    ms: fc.constantFrom(0, 0.01, 1, 1000, 1e6),
  });
  fc.assert(
    fc.property(fc.array(observation, { minLength: 20, maxLength: 200, size: 'max' }), (all) => {
      const learned = new RecursiveLeastSquares([1, 1e-6, 0.1], [3, 2e-6, 1.2]);
      for (const { a, bytes, ms } of all) learned.observe([1, bytes, a], ms);
      for (const coefficient of learned.coefficients) {
        expect(Number.isFinite(coefficient)).toBe(true);
        expect(coefficient).toBeGreaterThanOrEqual(0);
      }
    }),
    { numRuns: 300 },
  );
});

test('a coefficient that is not observed for long is as certain as at first', () => {
  const fresh = new RecursiveLeastSquares([5, 1], [2, 0.5]);
  const learned = new RecursiveLeastSquares([5, 1], [2, 0.5]);
  for (let i = 0; i < 2000; i++) learned.observe([1, 0], 5);
  const moved = (rls: RecursiveLeastSquares, x: number[], which: number) => {
    const before = rls.coefficients[which]!;
    rls.observe(x, 1e6);
    return rls.coefficients[which]! - before;
  };
  expect(moved(learned, [0, 1], 1)).toBeCloseTo(moved(fresh, [0, 1], 1), 6);
  // The coefficient that was observed is more certain.
  expect(moved(learned, [1, 0], 0)).toBeLessThan(moved(fresh, [1, 0], 0) / 2);
});

test('other kinds of observations are still learned after many of one kind', () => {
  const learned = new RecursiveLeastSquares([5, 1e-6], [10, 2e-6]);
  for (let i = 0; i < 300; i++) learned.observe([1, 1e6], 4);
  for (let i = 0; i < 100; i++) learned.observe([1, i % 2 ? 1e6 : 2e6], i % 2 ? 4 : 7);
  expect(learned.predict([1, 2e6])).toBeCloseTo(7, 0);
  expect(learned.predict([1, 1e6])).toBeCloseTo(4, 0);
});

test.each([
  ['far above', 300, 0.04, 10],
  ['far below', 10, 0.01, 40],
  ['about right', 6, 0.01, 10],
])(
  'from a prior that is %s, the prediction for the only size observed converges and stays',
  (_, fixed, perByte, y) => {
    const learned = new RecursiveLeastSquares([fixed, perByte], [0.5 * fixed + 1, 0.3 * perByte + 1e-9]);
    const after: number[] = [];
    for (let i = 0; i < 2000; i++) {
      learned.observe([1, 400], y);
      if (i >= 200) after.push(learned.predict([1, 400]));
    }
    expect(Math.min(...after)).toBeGreaterThan(0.9 * y);
    expect(Math.max(...after)).toBeLessThan(1.1 * y);
  },
);
