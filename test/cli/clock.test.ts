/** The system clock, over fake timers. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const DAY_MS = 86_400_000;

test('the system clock can sleep longer than a timer can', async () => {
  let awake = false;
  void systemClock.sleep(100 * DAY_MS).then(() => {
    awake = true;
  });
  await vi.advanceTimersByTimeAsync(100 * DAY_MS - 1);
  expect(awake).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(awake).toBe(true);
});

test('an abort signal ends a sleep before or during it, and leaves no timer', async () => {
  const early = new AbortController();
  early.abort();
  await systemClock.sleep(1000, early.signal);
  const later = new AbortController();
  const sleeping = systemClock.sleep(100 * DAY_MS, later.signal);
  await vi.advanceTimersByTimeAsync(60 * DAY_MS);
  later.abort();
  await sleeping;
  expect(vi.getTimerCount()).toBe(0);
});
