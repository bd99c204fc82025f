/**
 * Seeded draws for workloads: the same seed gives the same numbers on every machine. They are not NumPy's, whose
 * generator is different.
 */
import { uniformFloat64 } from 'pure-rand/distribution/uniformFloat64';
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import { seededGenerator } from '../seeded.ts';

/** Largest mean of a Poisson draw by multiplication: e^-30 is far from underflow. */
const POISSON_STEP = 30;

export class Random {
  readonly #generator: RandomGenerator;

  /** `index`: one of several streams of draws from the same seed. */
  constructor(seed: number, index = 0) {
    this.#generator = seededGenerator(seed, index);
  }

  /** 0 <= x < 1. */
  float(): number {
    return uniformFloat64(this.#generator);
  }

  /** Both ends included. */
  int(from: number, to: number): number {
    return uniformInt(this.#generator, from, to);
  }

  /** Standard normal, by Box and Muller. */
  normal(): number {
    return Math.sqrt(-2 * Math.log(1 - this.float())) * Math.cos(2 * Math.PI * this.float());
  }

  exponential(mean: number): number {
    return -mean * Math.log(1 - this.float());
  }

  /** Knuth's product of uniforms; a large mean is split into smaller ones. */
  poisson(mean: number): number {
    let count = 0;
    for (let left = mean; left > 0; left -= POISSON_STEP) {
      const limit = Math.exp(-Math.min(left, POISSON_STEP));
      for (let product = this.float(); product > limit; product *= this.float()) count++;
    }
    return count;
  }

  /** P(k) ∝ k^-alpha, k from 1 on; alpha > 1. Rejection after Devroye, Non-Uniform Random Variate Generation, X.6. */
  zipf(alpha: number): number {
    const exponent = alpha - 1;
    const b = 2 ** exponent;
    for (;;) {
      const x = Math.floor((1 - this.float()) ** (-1 / exponent));
      if (!(x <= Number.MAX_SAFE_INTEGER)) continue;
      const t = (1 + 1 / x) ** exponent;
      if ((this.float() * x * (t - 1)) / (b - 1) <= t / b) return x;
    }
  }
}
