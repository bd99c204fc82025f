/** What simulated engines generate: forced where a trace says it, drawn from the prompt elsewhere. The same on every engine. */
import type { EngineRequest } from '../engine/types.ts';

export class Answers {
  readonly #lowest: number;
  readonly #count: number;
  /** By the prompt itself, which the router hands on as it is. */
  readonly #forced = new WeakMap<readonly number[], readonly number[]>();

  /** Ids that are drawn lie from `lowest` on, below `vocabSize`. */
  constructor(lowest: number, vocabSize: number) {
    this.#lowest = lowest;
    this.#count = Math.max(1, vocabSize - lowest);
  }

  /** What answers this very prompt. */
  force(promptTokenIds: readonly number[], answer: readonly number[]): void {
    this.#forced.set(promptTokenIds, answer);
  }

  /** Token `index` of a request's answer. */
  of({ promptTokenIds }: Pick<EngineRequest, 'promptTokenIds'>): (index: number) => number {
    const forced = this.#forced.get(promptTokenIds);
    const seed = Math.imul(promptTokenIds.at(-1)! ^ Math.imul(promptTokenIds.length, 0x9e3779b1), 0x85ebca6b);
    return (index) => forced?.[index] ?? this.#lowest + (scrambled(seed + index) % this.#count);
  }
}

/** MurmurHash3's last step. */
function scrambled(seed: number): number {
  let bits = seed ^ (seed >>> 16);
  bits = Math.imul(bits, 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
