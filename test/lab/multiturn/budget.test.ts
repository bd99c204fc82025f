import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Budget } from '../../../src/lab/multiturn/budget.ts';

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

test('a budget ends 4 s early, for closing', () => {
  const budget = new Budget(10_000, Date.now);
  vi.advanceTimersByTime(5999);
  expect([budget.leftMs(), budget.spent.aborted]).toEqual([1, false]);
  vi.advanceTimersByTime(2);
  expect([budget.leftMs(), budget.spent.aborted]).toEqual([-1, true]);
});

test('a budget that is closed leaves no timer, and one without a deadline has none', () => {
  new Budget(10_000, Date.now).close();
  const unlimited = new Budget(null, Date.now);
  expect([unlimited.isLimited, unlimited.leftMs()]).toEqual([false, Number.POSITIVE_INFINITY]);
  expect(vi.getTimerCount()).toBe(0);
});
