import { describe, expect, it } from 'vitest';
import { isFirefox } from '../../src/platform/browser/browsers.ts';
import { polls } from '../../src/platform/browser/polling.ts';
import { type Defer, easedImmediate } from '../../src/platform/eased-immediate.ts';

/** Polls `times` times; each event loop turn takes `turnMs`, a sleep 0.2 ms. Returns the polls before which it slept. */
function sleepsOf(times: number, turnMs: (i: number) => number): number[] {
  let nowMs = 0;
  const sleeps: number[] = [];
  let asked = 0;
  const immediate: Defer = (callback) => callback();
  const sleep = () => {
    sleeps.push(asked);
    nowMs += 0.2;
  };
  const defer = easedImmediate(immediate, sleep, () => nowMs);
  while (asked < times) {
    asked++;
    defer(() => {});
    nowMs += turnMs(asked);
  }
  return sleeps;
}

describe('polling a software adapter', () => {
  it('sleeps before every poll once several polls have been made in a row', () => {
    const sleeps = sleepsOf(100, () => 0.01);
    expect(sleeps[0]).toBeGreaterThan(5);
    expect(sleeps).toEqual(Array.from({ length: 101 - sleeps[0]! }, (_, i) => sleeps[0]! + i));
  });

  it('never sleeps in short waits', () => {
    expect(sleepsOf(100, (i) => (i % 8 === 0 ? 5 : 0.01))).toEqual([]);
  });

  it('does not sleep at first in the next wait', () => {
    const sleeps = sleepsOf(60, (i) => (i === 30 ? 5 : 0.01));
    const eager = sleeps[0]! - 1;
    expect(sleeps).not.toContain(31);
    expect(sleeps).not.toContain(30 + eager);
    expect(sleeps).toContain(31 + eager);
  });

  it('passes on the arguments, and the return value of the immediate', () => {
    const got: unknown[] = [];
    const immediate: Defer = (callback, ...args) => {
      callback(...args);
      return 'handle';
    };
    const defer = easedImmediate(
      immediate,
      () => {},
      () => 0,
    );
    expect(defer((...args) => got.push(...args), 1, 'two')).toBe('handle');
    expect(got).toEqual([1, 'two']);
  });
});

describe('polling in Firefox', () => {
  it('is told from other browsers', () => {
    const firefox = 'Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0';
    const chrome =
      'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/147.0.0.0 Safari/537.36';
    expect([firefox, chrome, ''].map(isFirefox)).toEqual([true, false, false]);
  });

  it('lets other tasks run between polls', async () => {
    const nextPoll = polls();
    let ran = false;
    setTimeout(() => {
      ran = true;
    }, 5);
    for (let poll = 0; !ran; poll++) {
      expect(poll).toBeLessThan(20_000);
      await nextPoll();
    }
  });
});
