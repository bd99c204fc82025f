import { expect, it } from 'vitest';
import { WorkEstimate } from '../../src/model/pass/work-estimate.ts';

/** Returns the given times in turn, then repeats the last one. */
function times(...list: number[]): () => Promise<number> {
  return async () => (list.length > 1 ? list.shift()! : list[0]!);
}

it('a work estimate takes its rate from a long enough dispatch, rises slowly and falls at once', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 1e6 };
  await estimate.calibrate(work, times(10));
  expect(estimate.milliseconds(work)).toBeCloseTo(10, 0);
  estimate.learn([work], 21);
  const up = estimate.milliseconds(work);
  expect(up).toBeGreaterThan(11);
  expect(up).toBeLessThan(20);
  estimate.learn([work], 6);
  expect(estimate.milliseconds(work)).toBeCloseTo(5, 0);
});

it('a work estimate ignores a measurement during which the thread was suspended', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 1e6 };
  await estimate.calibrate(work, times(40, 9, 10));
  expect(estimate.milliseconds(work)).toBeCloseTo(9, 0);
  const short = { key: {}, work: 1e3 };
  const before = estimate.milliseconds(short);
  await estimate.calibrate(short, times(40, 0.3));
  expect(estimate.milliseconds(short)).toBe(before);
});

it('a work estimate uses the upper bound of a dispatch too short to measure', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 2e6 };
  const guess = estimate.rate(work.key);
  await estimate.calibrate(work, times(0.2));
  expect(estimate.rate(work.key)).toBeCloseTo(1e-7, 12);
  expect(estimate.rate(work.key)).toBeLessThan(guess);
});

it('a work estimate times short dispatches together, so that their bound is not one round trip', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 1e6 };
  /** 0.1 ms of round trip, and 0.01 ms for each dispatch. */
  const time = async (count: number) => 0.1 + 0.01 * count;
  await estimate.calibrate(work, time, 20);
  expect(estimate.rate(work.key)).toBeCloseTo(0.015 / 1e6, 12);
  const slow = { key: {}, work: 1e6 };
  const counts: number[] = [];
  const slowTime = async (count: number) => {
    counts.push(count);
    return 10 * count;
  };
  await estimate.calibrate(slow, slowTime, 20);
  expect(new Set(counts)).toEqual(new Set([1]));
});

it('a work estimate recovers from a rate that was measured far too high', async () => {
  const estimate = new WorkEstimate();
  const key = {};
  const whole = 1024;
  /** The simulated device: 0.5 ms per unit of work, and 2.5 ms per submit. */
  const actualMs = (work: number) => 0.5 * work + 2.5;
  /** Splits the whole into submits of an estimated 30 ms, at least 16 units each, and learns from each. */
  const run = (): number => {
    let submits = 0;
    for (let done = 0; done < whole; submits++) {
      const work = Math.min(whole - done, Math.max(16, Math.floor(30 / estimate.rate(key) / 16) * 16));
      estimate.learn([{ key, work }], actualMs(work));
      done += work;
    }
    return submits;
  };
  await estimate.calibrate({ key, work: 1 }, times(500));
  const first = run();
  expect(run()).toBeLessThanOrEqual(first);
  expect(run()).toBeLessThan(25);
  expect(estimate.rate(key)).toBeGreaterThan(0.4);
  expect(estimate.rate(key)).toBeLessThan(0.6);
});
