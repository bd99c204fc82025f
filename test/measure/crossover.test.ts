import { describe, expect, it } from 'vitest';
import { type CurvePoint, crossover, recomputeOverPull, thresholdCost } from '../../src/measure/crossover.ts';
import { outcomeOf } from '../../src/measure/outcome.ts';

const TOKENS = [8, 16, 32, 64, 128, 256, 512];

/** Pull: fixed + 0.1 ms a token. Recompute: 0.5 ms a token. They cross at fixed / 0.4 tokens. */
function curve(fixedMs: number, noise: (round: number, i: number) => number = () => 0): CurvePoint[] {
  return TOKENS.map((tokens, i) => {
    const rounds = [0, 1, 2, 3, 4];
    return {
      tokens,
      pullMs: rounds.map((round) => 20 + fixedMs + 0.1 * tokens + noise(round, i)),
      recomputeMs: rounds.map((round) => 20 + 0.5 * tokens + noise(round, i + 7)),
    };
  });
}

/** Repeatable noise of up to `ms` either way. */
const wobble = (ms: number) => (round: number, i: number) => ms * Math.sin(round * 12.9 + i * 78.2);

describe('crossover', () => {
  it('is where the two straight lines cross, with an interval of no width without noise', () => {
    const found = crossover(curve(40));
    expect(found).toMatchObject({ kind: 'crosses' });
    if (found.kind !== 'crosses') return;
    expect(found.tokens).toBeCloseTo(100, 6);
    expect(found.low).toBeCloseTo(100, 6);
    expect(found.high).toBeCloseTo(100, 6);
  });

  it('has an interval that contains the true value and widens with noise', () => {
    const width = (ms: number): number => {
      const found = crossover(curve(40, wobble(ms)));
      if (found.kind !== 'crosses') throw new Error(found.kind);
      expect(found.low!).toBeLessThan(100);
      expect(found.high!).toBeGreaterThan(100);
      return found.high! - found.low!;
    };
    expect(width(6)).toBeGreaterThan(width(2));
  });

  it('says so when one way wins everywhere', () => {
    expect(crossover(curve(0))).toEqual({ kind: 'pull_always_wins' });
    expect(crossover(curve(400))).toEqual({ kind: 'pull_always_loses' });
  });

  it('has an open end if the interval reaches beyond what was measured', () => {
    // At 512 tokens pulling leads by 10 ms in three rounds and lags by 30 ms in two.
    const points = curve(300).map((point) =>
      point.tokens === 512
        ? { ...point, recomputeMs: point.pullMs.map((ms, round) => ms + (round < 3 ? 10 : -30)) }
        : point,
    );
    const found = crossover(points);
    expect(found).toMatchObject({ kind: 'crosses', high: null });
    if (found.kind === 'crosses') expect(found.low).toBeGreaterThan(256);
  });

  it('has no interval if there was only one round', () => {
    const once = curve(40, wobble(6)).map(({ tokens, pullMs, recomputeMs }) => ({
      tokens,
      pullMs: pullMs.slice(0, 1),
      recomputeMs: recomputeMs.slice(0, 1),
    }));
    expect(crossover(once)).toMatchObject({ kind: 'crosses', low: null, high: null });
  });

  it('is not affected by one noisy length on the wrong side', () => {
    const points = curve(40).map((point) =>
      point.tokens === 16 ? { ...point, recomputeMs: point.pullMs.map((ms) => ms + 1) } : point,
    );
    const found = crossover(points);
    expect(found).toMatchObject({ kind: 'crosses' });
    if (found.kind === 'crosses') expect(found.tokens).toBeCloseTo(100, 6);
  });

  it('has the same interval for the same seed', () => {
    const points = curve(40, wobble(6));
    expect(crossover(points, 3)).toEqual(crossover(points, 3));
  });
});

describe('the cost of a threshold', () => {
  it('adds up the times of the chosen ways, and the regret against the better ways', () => {
    const points = curve(40);
    const best = thresholdCost(points, 100);
    expect(best.regretMs).toBeCloseTo(0, 9);
    const fixed = thresholdCost(points, 64);
    // At 64 tokens pulling takes 66.4 ms and computing 52 ms.
    expect(fixed.regretMs).toBeCloseTo(14.4, 9);
    expect(fixed.totalMs - best.totalMs).toBeCloseTo(14.4, 9);
    const never = thresholdCost(points, Number.POSITIVE_INFINITY);
    expect(never.totalMs).toBeCloseTo(7 * 20 + 0.5 * TOKENS.reduce((a, b) => a + b), 9);
    // Lengths from the threshold on are pulled: 128 tokens are pulled at 128 and computed at 129.
    expect(thresholdCost(points, 128).totalMs).not.toBeCloseTo(thresholdCost(points, 129).totalMs, 1);
  });
});

describe('the outcome at one length', () => {
  const told = (pullMs: number[], recomputeMs: number[]) =>
    outcomeOf(recomputeOverPull({ tokens: 64, pullMs, recomputeMs }));

  it('is ahead or behind if the rounds agree', () => {
    expect(told([20, 21, 20, 22, 21], [40, 41, 43, 40, 42])).toBe('ahead');
    expect(told([40, 41, 43, 40, 42], [20, 21, 20, 22, 21])).toBe('behind');
  });

  it('is a tie if pulling won two rounds of five, even with the lower median', () => {
    expect(told([20, 20, 30, 31, 24], [26, 27, 25, 26, 23])).toBe('tie');
  });

  it('of a single round is a tie unless the two differ by more than one measurement varies', () => {
    expect(told([20], [30])).toBe('ahead');
    expect(told([20], [20.4])).toBe('tie');
  });
});
