/** Where all seeded draws begin. Seeds of users are small and follow each other, and draws by them must have nothing in common. */
import { xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';

/** Of a user's seed the streams of draws that have nothing in common: each an index of `seededGenerator`. */
export const STREAM = { lengths: 0, arrivals: 1, steps: 2, measuring: 3 } as const;

/** murmur3's finaliser: a bijection of 32-bit integers, unsigned. */
export function mix(word: number): number {
  let x = word | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * A generator of its own for each seed and index, both of 32 bits. Its state is filled by SplitMix, as xoroshiro's authors
 * ask for: pure-rand takes a seed as it is, whose first draw is then its complement.
 */
export function seededGenerator(seed: number, index = 0): RandomGenerator {
  let state = mix(mix(seed) + index);
  const word = (): number => {
    state = (state + 0x9e3779b9) | 0;
    return mix(state) | 0;
  };
  return xoroshiro128plusFromState([word(), word(), word(), word()]);
}
