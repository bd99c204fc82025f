/** The tokens of a trace's prompts and answers: the same content has the same tokens, whatever the block size. */
import { ConfigError } from '../../errors.ts';
import { mix } from '../../seeded.ts';
import { sumOf } from '../../sum.ts';
import { LOWEST_TOKEN_ID } from '../random-conversations.ts';
import type { Segment } from './types.ts';

/** Draws by (seed, key, place), without state, so that any part of a content can be generated alone. */
export class TraceTokens {
  readonly #seed: number;
  readonly #span: number;

  /** Throws ConfigError for a vocabulary without ordinary tokens. */
  constructor(vocabSize: number, seed: number) {
    if (vocabSize <= LOWEST_TOKEN_ID)
      throw new ConfigError(
        `a vocabulary of ${vocabSize} tokens is too small: a trace needs more than ${LOWEST_TOKEN_ID}; choose another --model`,
      );
    this.#seed = mix(seed ^ 0x9e3779b9);
    this.#span = vocabSize - LOWEST_TOKEN_ID;
  }

  of(segments: readonly Segment[]): number[] {
    const tokenIds: number[] = [];
    for (const { key, from, length } of segments) {
      const base = this.#base(key);
      for (let place = from; place < from + length; place++) tokenIds.push(this.#drawn(base, place));
    }
    return tokenIds;
  }

  /** The token at a place of a content. */
  at(key: number, place: number): number {
    return this.#drawn(this.#base(key), place);
  }

  #base(key: number): number {
    return mix((key >>> 0) ^ mix(Math.floor(key / 2 ** 32) ^ this.#seed));
  }

  #drawn(base: number, place: number): number {
    return LOWEST_TOKEN_ID + (mix(base + Math.imul(place, 0x9e3779b1)) % this.#span);
  }
}

export const lengthOf = (segments: readonly Segment[]): number => sumOf(segments, ({ length }) => length);

/** The tokens [from, to) of a sequence, both within it. */
export function sliceSegments(segments: readonly Segment[], from: number, to: number): Segment[] {
  const found: Segment[] = [];
  let at = 0;
  for (const segment of segments) {
    const first = Math.max(from, at);
    const end = Math.min(to, at + segment.length);
    if (first < end) found.push({ key: segment.key, from: segment.from + first - at, length: end - first });
    at += segment.length;
    if (at >= to) break;
  }
  return found;
}
