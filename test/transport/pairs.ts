/** Pairs of engines that end with the test that made them. */
import { afterEach } from 'vitest';
import { makePair, type Pair } from './helpers.ts';

const open: Pair[] = [];
afterEach(() => {
  for (const { close } of open.splice(0)) close();
});

export function openPair(options?: Parameters<typeof makePair>[0]): Pair {
  const made = makePair(options);
  open.push(made);
  return made;
}
