import { describe, expect, it } from 'vitest';
import {
  type Batch,
  differenceInterval,
  shareInterval,
  shareOfBatches,
  studentT975,
} from '../../../src/simulate/plan/confidence.ts';
import { Random } from '../../../src/workload/random.ts';

const BATCHES = 10;
const EACH = 40;

/** Requests with correlated outcomes: `shared` 0 draws each request's, 1 each batch's. */
function draw(random: Random, share: number, shared: number): Batch[] {
  return Array.from({ length: BATCHES }, () => {
    const fate = random.float() < share;
    let good = 0;
    for (let i = 0; i < EACH; i++) good += Number(random.float() < shared ? fate : random.float() < share);
    return { counted: EACH, good };
  });
}

describe('the confidence interval of a share', () => {
  it("uses Student's t quantiles, within half a percent", () => {
    for (const [degrees, table] of [
      [4, 2.776],
      [9, 2.262],
      [19, 2.093],
      [99, 1.984],
    ] as const)
      expect(Math.abs(studentT975(degrees) / table - 1)).toBeLessThan(0.005);
  });

  it.each([
    [0.9, 0],
    [0.6, 0],
    [0.6, 0.5],
  ])('covers a share of %d in about 95 of 100 draws, with correlation %d within batches', (share, shared) => {
    const random = new Random(3);
    const draws = 600;
    let covered = 0;
    for (let i = 0; i < draws; i++) {
      const { low, high } = shareInterval(draw(random, share, shared));
      if (low <= share && share <= high) covered++;
    }
    expect(covered / draws).toBeGreaterThan(0.9);
  });

  it('is wider if outcomes are correlated within batches, and never excludes a failure', () => {
    const width = (batches: Batch[]): number => {
      const { low, high } = shareInterval(batches);
      return high - low;
    };
    const alone = Array.from({ length: BATCHES }, () => ({ counted: 40, good: 20 }));
    const together = alone.map((_, i) => ({ counted: 40, good: i % 2 === 0 ? 40 : 0 }));
    expect(shareOfBatches(together)).toBe(shareOfBatches(alone));
    expect(width(together)).toBeGreaterThan(3 * width(alone));
    const all = shareInterval(alone.map(() => ({ counted: 40, good: 40 })));
    expect(all.high).toBe(1);
    expect(all.low).toBeLessThan(1);
    expect(all.low).toBeGreaterThan(0.98);
    expect(shareInterval([])).toEqual({ low: 0, high: 1 });
  });

  it('tells two shares apart by pairs of batches with the same arrivals', () => {
    const random = new Random(5);
    const hard = Array.from({ length: BATCHES }, () => random.int(10, 40));
    const one = hard.map((good) => ({ counted: 42, good }));
    const better = hard.map((good) => ({ counted: 42, good: good + 2 }));
    const shuffled = better.toReversed();
    expect(differenceInterval(better, one, true).low).toBeGreaterThan(0);
    expect(differenceInterval(one, one, true)).toEqual({ low: 0, high: 0 });
    expect(differenceInterval(shuffled, one, true).low).toBeLessThan(0);
    // With different arrivals there are no pairs: the interval combines those of both.
    const { low, high } = differenceInterval(better, one, false);
    expect(low).toBeLessThan(0);
    expect((low + high) / 2).toBeCloseTo(2 / 42);
    const width = (batches: Batch[]): number => {
      const alone = differenceInterval(batches, [], true);
      return alone.high - alone.low;
    };
    expect(high - low).toBeCloseTo(Math.hypot(width(better), width(one)));
  });
});
