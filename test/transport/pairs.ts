/** Pairs of engines that close when their test finishes. */
import { onTestFinished } from 'vitest';
import { makePair, type Pair } from './helpers.ts';

export function openPair(options?: Parameters<typeof makePair>[0]): Pair {
  const made = makePair(options);
  onTestFinished(made.close);
  return made;
}
