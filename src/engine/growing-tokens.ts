/** A request's tokens: the prompt, then the output. Two representations: an array, and a TokenSequence for simulations. */
import { type TokenIds, TokenSequence } from '../config/token-ids.ts';

export interface GrowingTokens {
  readonly length: number;
  readonly last: number;
  /** For an array prompt: always the same array, which grows. */
  readonly ids: TokenIds;
  slice(start: number, end: number): TokenIds;
  push(tokenId: number): void;
  /** Appends the next `count` forced tokens. At least that many must be left. */
  pushForced(count: number): void;
}

/** `forced`: the ids of the first output tokens. */
export const growingTokens = (prompt: TokenIds, forced: TokenIds): GrowingTokens =>
  prompt instanceof TokenSequence ? new CountedTokens(prompt, forced) : new WrittenTokens(prompt, forced);

class WrittenTokens implements GrowingTokens {
  readonly ids: number[];
  readonly #numPrompt: number;
  readonly #forced: TokenIds;

  constructor(prompt: TokenIds, forced: TokenIds) {
    this.ids = [...prompt];
    this.#numPrompt = prompt.length;
    this.#forced = forced;
  }

  get length(): number {
    return this.ids.length;
  }

  get last(): number {
    return this.ids.at(-1)!;
  }

  slice(start: number, end: number): TokenIds {
    return this.ids.slice(start, end);
  }

  push(tokenId: number): void {
    this.ids.push(tokenId);
  }

  pushForced(count: number): void {
    for (let i = 0; i < count; i++) this.ids.push(this.#forced.at(this.length - this.#numPrompt)!);
  }
}

/** For a TokenSequence prompt: forced tokens are counted, not copied. */
class CountedTokens implements GrowingTokens {
  readonly #prompt: TokenSequence;
  readonly #forced: TokenIds;
  #numForced = 0;
  /** Output tokens after the forced ones. */
  readonly #written: number[] = [];
  /** The result of the last `ids` call. */
  #joined: TokenSequence;

  constructor(prompt: TokenSequence, forced: TokenIds) {
    this.#prompt = prompt;
    this.#forced = forced;
    this.#joined = prompt;
  }

  get length(): number {
    return this.#prompt.length + this.#numForced + this.#written.length;
  }

  get last(): number {
    return this.#written.at(-1) ?? this.ids.at(-1)!;
  }

  get ids(): TokenIds {
    if (this.#joined.length === this.length) return this.#joined;
    const known = this.#joined.length - this.#prompt.length;
    const forced = this.#forced.slice(Math.min(known, this.#numForced), this.#numForced);
    const written = this.#written.slice(Math.max(0, known - this.#numForced));
    this.#joined = this.#joined.followedBy(forced).followedBy(written);
    return this.#joined;
  }

  slice(start: number, end: number): TokenIds {
    const { length } = this.#prompt;
    if (end <= length) return this.#prompt.slice(start, end);
    const forced = start >= length && end <= length + this.#numForced;
    return forced ? this.#forced.slice(start - length, end - length) : this.ids.slice(start, end);
  }

  push(tokenId: number): void {
    if (this.#numForced < this.#forced.length) this.#numForced++;
    else this.#written.push(tokenId);
  }

  pushForced(count: number): void {
    this.#numForced += count;
  }
}
