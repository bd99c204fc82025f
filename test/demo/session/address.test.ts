/** The address follows what is set, within what browsers take. */
import { expect, it, onTestFinished, vi } from 'vitest';
import { changeHash, type HashChange } from '../../../demo/src/session/address.ts';

it('however many changes a slider makes, no browser refuses one, and the last is in the address', () => {
  vi.useFakeTimers();
  const madeMs: number[] = [];
  const page = { hash: '', href: 'http://localhost/page' };
  vi.stubGlobal('location', page);
  vi.stubGlobal('history', {
    replaceState: (_: unknown, __: string, url: string) => {
      madeMs.push(performance.now());
      page.hash = new URL(url).hash;
    },
  });
  onTestFinished(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  let rate = 0;
  const rateOf: HashChange = () => `#rate=${rate}`;
  changeHash(rateOf);
  // At once, as long as there were few.
  expect(page.hash).toBe('#rate=0');
  for (rate = 1; rate < 1200; rate++) {
    changeHash(rateOf);
    vi.advanceTimersByTime(16);
  }
  changeHash((hash) => `${hash}&view=fleet`);
  vi.runAllTimers();
  expect(page.hash).toBe('#rate=1200&view=fleet');
  const inTenSeconds = madeMs.map(
    (first) => madeMs.filter((ms) => ms >= first && ms < first + 10_000).length,
  );
  expect(Math.max(...inTenSeconds)).toBeLessThan(100);
});
