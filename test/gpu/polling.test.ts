import { describe, expect, it } from 'vitest';
import { type Defer, easedImmediate } from '../../src/platform/node/polling.ts';

/** Polls `times`, a turn taking `turnMs` and a pause 1 ms: when it paused, by the number of the question. */
function pausesOf(times: number, turnMs: (i: number) => number): number[] {
  let nowMs = 0;
  const pauses: number[] = [];
  let asked = 0;
  const immediate: Defer = (callback) => callback();
  const pause: Defer = (callback) => {
    pauses.push(asked);
    nowMs += 1;
    callback();
  };
  const defer = easedImmediate(immediate, pause, () => nowMs);
  while (asked < times) {
    asked++;
    defer(() => {});
    nowMs += turnMs(asked);
  }
  return pauses;
}

describe('polling beside a software adapter', () => {
  it('pauses after some turns in a row, again and again', () => {
    const pauses = pausesOf(100, () => 0.01);
    expect(pauses.length).toBeGreaterThan(2);
    expect(pauses[0]).toBeGreaterThan(10);
    expect(new Set(pauses.slice(1).map((at, i) => at - pauses[i]!)).size).toBe(1);
  });

  it('never pauses in waits that end soon', () => {
    expect(pausesOf(100, (i) => (i % 20 === 0 ? 5 : 0.01))).toEqual([]);
  });

  it('passes the arguments on, and what the timer gives', () => {
    const got: unknown[] = [];
    const defer = easedImmediate(
      (callback, ...args) => callback(...args) as unknown,
      () => 'paused',
      () => 0,
    );
    defer((...args) => got.push(...args), 1, 'two');
    expect(got).toEqual([1, 'two']);
    const answers = Array.from({ length: 60 }, () => defer(() => {}));
    expect(answers).toContain('paused');
  });
});
