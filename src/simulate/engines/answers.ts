/**
 * What simulated engines generate where a request does not say: tokens drawn from the prompt, the same on every engine.
 */
import type { TokenIds } from '../../config/token-ids.ts';
import type { EngineRequest } from '../../engine/types.ts';
import { mix } from '../../seeded.ts';
import { ListedTokens } from '../tokens/listed-tokens.ts';
import { SegmentedTokens } from '../tokens/segmented-tokens.ts';

export class Answers {
  readonly #lowest: number;
  readonly #count: number;

  /** Drawn ids are in [lowest, vocabSize). */
  constructor(lowest: number, vocabSize: number) {
    this.#lowest = lowest;
    this.#count = Math.max(1, vocabSize - lowest);
  }

  /** All tokens of a request's answer, as many as maxTokens and the context allow. */
  of({ promptTokenIds, sampling }: EngineRequest, maxModelLen: number): TokenIds {
    const { length } = promptTokenIds;
    const count = Math.max(0, Math.min(sampling.maxTokens, maxModelLen - length));
    const forced = sampling.forcedTokenIds ?? [];
    if (forced.length >= count) return forced;
    const seed = Math.imul((promptTokenIds.at(-1) ?? 0) ^ Math.imul(length, 0x9e3779b1), 0x85ebca6b) >>> 0;
    const contents = promptTokenIds instanceof SegmentedTokens && promptTokenIds.contents;
    if (contents instanceof ListedTokens && forced.length === 0) return contents.answer(seed, count);
    return Array.from({ length: count }, (_, index) => forced.at(index) ?? this.at(seed, index));
  }

  /** The token at a place of the answer drawn by a seed. */
  at(seed: number, place: number): number {
    return this.#lowest + (mix(seed + place) % this.#count);
  }
}
