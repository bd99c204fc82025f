/** A request's tokens: its prompt, and what is generated after it. */
import { type TokenIds, TokenSequence } from '../config/token-ids.ts';

export interface GrowingTokens {
  readonly length: number;
  readonly last: number;
  /** Of an array it is the same one every time, which grows. */
  readonly ids: TokenIds;
  slice(start: number, end: number): TokenIds;
  push(tokenId: number): void;
  /** So many that are forced, all of them. */
  pushForced(count: number): void;
}

/** `forced`: what is generated, as far as it goes. */
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

/** After a prompt that is a sequence: of what is forced it is only counted how many there are. */
class CountedTokens implements GrowingTokens {
  readonly #prompt: TokenSequence;
  readonly #forced: TokenIds;
  #numForced = 0;
  /** Beyond what is forced. */
  readonly #written: number[] = [];
  /** As they were when they were asked for last. */
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
