/** Pairs of engines that end with the test that made them. */
import { onTestFinished } from 'vitest';
import { makePair, type Pair } from './helpers.ts';

export function openPair(options?: Parameters<typeof makePair>[0]): Pair {
  const made = makePair(options);
  onTestFinished(made.close);
  return made;
}
