/** A request's tokens: its prompt, and what is generated after it. */
import { type TokenIds, TokenSequence } from '../config/token-ids.ts';

export class GrowingTokens {
  readonly #prompt: TokenIds;
  readonly #forced: TokenIds;
  /** All of them, unless the prompt is a sequence: then those beyond the ones that are forced. */
  readonly #written: number[];
  #numForced = 0;
  /** Of a sequence, as it was when it was asked for last. */
  #joined: TokenIds;

  /** `forced`: what is generated, as far as it goes. */
  constructor(prompt: TokenIds, forced: TokenIds) {
    this.#prompt = prompt;
    this.#forced = forced;
    this.#joined = prompt;
    this.#written = prompt instanceof TokenSequence ? [] : [...prompt];
  }

  get length(): number {
    const kept = this.#prompt instanceof TokenSequence ? this.#prompt.length : 0;
    return kept + this.#numForced + this.#written.length;
  }

  get last(): number {
    return this.#written.at(-1) ?? this.ids.at(-1)!;
  }

  /** Of an array it is the same one every time, which grows. */
  get ids(): TokenIds {
    if (!(this.#prompt instanceof TokenSequence)) return this.#written;
    if (this.#joined.length === this.length) return this.#joined;
    const forced = this.#forced.slice(0, this.#numForced);
    this.#joined = this.#prompt.followedBy(forced).followedBy(this.#written);
    return this.#joined;
  }

  slice(start: number, end: number): TokenIds {
    if (!(this.#prompt instanceof TokenSequence)) return this.#written.slice(start, end);
    const { length } = this.#prompt;
    if (end <= length) return this.#prompt.slice(start, end);
    const forced = start >= length && end <= length + this.#numForced;
    return forced ? this.#forced.slice(start - length, end - length) : this.ids.slice(start, end);
  }

  push(tokenId: number): void {
    if (this.#leftToForce > 0) this.#numForced++;
    else this.#written.push(tokenId);
  }

  /** So many that are forced, all of them. */
  pushForced(count: number): void {
    const counted = Math.min(count, this.#leftToForce);
    this.#numForced += counted;
    const from = this.length - this.#prompt.length;
    for (let i = 0; i < count - counted; i++) this.#written.push(this.#forced.at(from + i)!);
  }

  /** Of a sequence they are counted alone. */
  get #leftToForce(): number {
    return this.#prompt instanceof TokenSequence ? this.#forced.length - this.#numForced : 0;
  }
}
