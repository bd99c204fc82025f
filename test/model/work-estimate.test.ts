import { expect, it } from 'vitest';
import { WorkEstimate } from '../../src/model/work-estimate.ts';

/** The given times in turn, then the last one again and again. */
function times(...list: number[]): () => Promise<number> {
  return async () => (list.length > 1 ? list.shift()! : list[0]!);
}

it('sets a rate from a dispatch that took long enough, rises slowly and falls at once', async () => {
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

it('sets no rate by a moment in which the thread stood still', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 1e6 };
  await estimate.calibrate(work, times(40, 9, 10));
  expect(estimate.milliseconds(work)).toBeCloseTo(9, 0);
  const short = { key: {}, work: 1e3 };
  const before = estimate.milliseconds(short);
  await estimate.calibrate(short, times(40, 0.3));
  expect(estimate.milliseconds(short)).toBe(before);
});

it('takes a dispatch that is too short to be measured for what it can have cost at most', async () => {
  const estimate = new WorkEstimate();
  const work = { key: {}, work: 2e6 };
  const guess = estimate.rate(work.key);
  await estimate.calibrate(work, times(0.2));
  expect(estimate.rate(work.key)).toBeCloseTo(1e-7, 12);
  expect(estimate.rate(work.key)).toBeLessThan(guess);
});

it('recovers from a rate that a busy moment made far too high', async () => {
  const estimate = new WorkEstimate();
  const key = {};
  const whole = 1024;
  /** What the device does: so much a unit, and a way there and back that is a submit's own. */
  const actualMs = (work: number) => 0.5 * work + 2.5;
  /** Cuts the whole into submits of 30 ms by the estimate, 16 units at the least, and learns from each. */
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
