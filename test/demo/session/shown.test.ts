import { signal } from '@preact/signals';
import { expect, it } from 'vitest';
import { once } from '../../../demo/src/session/shown.ts';

it('once() stops evaluating its condition after it has held', async () => {
  const seen = signal(0);
  let looks = 0;
  const isSo = (least: number) => () => {
    looks++;
    return seen.value >= least;
  };
  const waited = once(isSo(1));
  seen.value = 1;
  await waited;
  await once(isSo(1));
  const before = looks;
  seen.value = 2;
  expect(looks).toBe(before);
});
