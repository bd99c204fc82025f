/**
 * Token lists as runs of shared lists: what a long prompt has in common with others is the same place of the same list.
 * It is hashed and compared run by run, and not copied. Lists that begin alike share that beginning. A generated answer
 * is the first places of a drawn list.
 */
import type { TokenIds } from '../../config/token-ids.ts';
import type { Segment } from '../../workload/traces/types.ts';
import { type Contents, SegmentedTokens } from './segmented-tokens.ts';

/** The generated tokens, which are stored nowhere: see Answers. */
export interface Drawn {
  at(seed: number, place: number): number;
}

/** Tokens that some lists have in common, and what follows them, by its first token. */
interface Branch extends Segment {
  next: Map<number, Branch>;
}

/** Keys from here on are those of answers: this plus the seed. */
const ANSWERS = 2 ** 40;

export class ListedTokens implements Contents {
  readonly #drawn: Drawn;
  /** Lists by key. */
  readonly #lists: (readonly number[])[] = [];
  readonly #known = new Map<readonly number[], SegmentedTokens>();
  readonly #first = new Map<number, Branch>();

  constructor(drawn: Drawn) {
    this.#drawn = drawn;
  }

  at(key: number, place: number): number {
    return key >= ANSWERS ? this.#drawn.at(key - ANSWERS, place) : this.#lists[key]![place]!;
  }

  /** The first `length` tokens of the answer drawn by `seed`, which is in [0, 2^32). */
  answer(seed: number, length: number): TokenIds {
    return SegmentedTokens.of([{ key: ANSWERS + seed, from: 0, length }], this);
  }

  /** The list as runs. It must not change afterwards. */
  of(list: readonly number[]): TokenIds {
    let tokens = this.#known.get(list);
    if (!tokens) {
      tokens = SegmentedTokens.of(this.#segments(list), this);
      this.#known.set(list, tokens);
    }
    return tokens;
  }

  #segments(list: readonly number[]): Segment[] {
    const found: Segment[] = [];
    let branches = this.#first;
    for (let at = 0; at < list.length; ) {
      const branch = branches.get(list[at]!);
      if (!branch) {
        const own = { key: this.#lists.push(list) - 1, from: at, length: list.length - at };
        branches.set(list[at]!, { ...own, next: new Map() });
        found.push(own);
        break;
      }
      const length = this.#alike(branch, list, at);
      found.push({ key: branch.key, from: branch.from, length });
      if (length < branch.length) this.#fork(branch, length);
      branches = branch.next;
      at += length;
    }
    return found;
  }

  #alike({ key, from, length }: Branch, list: readonly number[], at: number): number {
    const most = Math.min(length, list.length - at);
    let count = 0;
    while (count < most && this.at(key, from + count) === list[at + count]) count++;
    return count;
  }

  #fork(branch: Branch, length: number): void {
    const { key, from, next } = branch;
    const rest = { key, from: from + length, length: branch.length - length, next };
    branch.length = length;
    branch.next = new Map([[this.at(key, rest.from), rest]]);
  }
}
