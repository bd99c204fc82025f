/** The address follows the settings as soon as the browser accepts changes. */
import { expect, it, onTestFinished, vi } from 'vitest';
import { changeHash, type HashChange } from '../../../demo/src/session/address.ts';

it('changes that the browser refuses are made later, once, with the latest settings', () => {
  vi.useFakeTimers();
  let refuses = false;
  let tried = 0;
  const page = { hash: '', href: 'http://localhost/page' };
  vi.stubGlobal('location', page);
  vi.stubGlobal('history', {
    replaceState: (_: unknown, __: string, url: string) => {
      tried++;
      if (refuses) throw new Error('more than 100 times per 10 seconds');
      page.hash = new URL(url).hash;
    },
  });
  onTestFinished(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  let rate = 1;
  const rateOf: HashChange = () => `#rate=${rate}`;
  changeHash(rateOf);
  expect(page.hash).toBe('#rate=1');
  refuses = true;
  for (; rate < 5; rate++) changeHash(rateOf);
  refuses = false;
  tried = 0;
  vi.runAllTimers();
  expect([page.hash, tried]).toEqual(['#rate=5', 1]);
});
