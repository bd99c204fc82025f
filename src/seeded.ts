/**
 * Seeded random generators, for every draw in the project. User seeds are small and often consecutive, so each seed is
 * mixed before use: draws under different seeds are independent.
 */
import { xoroshiro128plusFromState } from 'pure-rand/generator/xoroshiro128plus';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';

/** Independent streams of draws under one seed, as the `index` of `seededGenerator`. */
export const STREAM = { lengths: 0, arrivals: 1, steps: 2, measuring: 3, reads: 4 } as const;

/** murmur3's finaliser: a bijection on 32-bit integers. Returns an unsigned integer. */
export function mix(word: number): number {
  let x = word | 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

/**
 * An independent generator for each pair of seed and index, both 32-bit integers. SplitMix fills its state, as
 * xoroshiro's authors recommend. pure-rand uses a seed as the state unchanged, and the first draw is then the seed's
 * complement.
 */
export function seededGenerator(seed: number, index = 0): RandomGenerator {
  let state = mix(mix(seed) + index);
  const word = (): number => {
    state = (state + 0x9e3779b9) | 0;
    return mix(state) | 0;
  };
  return xoroshiro128plusFromState([word(), word(), word(), word()]);
}
