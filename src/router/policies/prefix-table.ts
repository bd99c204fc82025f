/**
 * What a router believes that engines have cached, from where it sent prompts: AIBrix's prefix hash table
 * (pkg/utils/prefixcacheindexer) and llm-d's approximate prefix index. Nobody tells it what an engine evicted.
 */

interface Block {
  engines: Map<string, number>;
  lastMs: number;
}

export interface PrefixTableSizes {
  /** Tokens a block of this table; nothing to do with the engines' KV blocks. */
  blockTokens: number;
  maxBlocks: number;
  /** A block that was credited to nobody for longer is forgotten, milliseconds. */
  keepMs: number;
}

export class PrefixTable {
  readonly #sizes: PrefixTableSizes;
  /** By hash of all tokens up to the block's end; least recently credited first. */
  readonly #blocks = new Map<number, Block>();

  constructor(sizes: PrefixTableSizes) {
    this.#sizes = sizes;
  }

  /** Blocks of a prompt; a last one that is not full counts. */
  blocksOf(tokenIds: readonly number[]): number {
    return Math.ceil(tokenIds.length / this.#sizes.blockTokens);
  }

  /** Leading blocks by engine; engines with none are left out. */
  match(tokenIds: readonly number[], nowMs: number): ReadonlyMap<string, number> {
    const found: Block[] = [];
    for (const hash of this.#hashes(tokenIds)) {
      const block = this.#blocks.get(hash);
      if (!block || nowMs - block.lastMs > this.#sizes.keepMs) break;
      found.push(block);
    }
    const matched = new Map<string, number>();
    // Who has a block has those before it, for prompts are credited whole: an equal number is the same engines.
    for (let i = found.length - 1; i >= 0; i--) {
      const { engines } = found[i]!;
      if (engines.size === found[i + 1]?.engines.size) continue;
      for (const engineId of engines.keys()) if (!matched.has(engineId)) matched.set(engineId, i + 1);
    }
    return matched;
  }

  /** The engine was sent this prompt. */
  credit(tokenIds: readonly number[], engineId: string, nowMs: number): void {
    // Backwards, so that of one prompt the last block is forgotten first.
    for (const hash of [...this.#hashes(tokenIds)].reverse()) {
      const block = this.#blocks.get(hash) ?? { engines: new Map(), lastMs: nowMs };
      block.engines.set(engineId, nowMs);
      block.lastMs = nowMs;
      this.#blocks.delete(hash);
      this.#blocks.set(hash, block);
    }
    for (const [hash, { lastMs }] of this.#blocks) {
      if (this.#blocks.size <= this.#sizes.maxBlocks && nowMs - lastMs <= this.#sizes.keepMs) break;
      this.#blocks.delete(hash);
    }
  }

  /** Two hashes of 32 bits in one number of 53: a false match would only cost time, and is still not wanted. */
  *#hashes(tokenIds: readonly number[]): Generator<number> {
    const { blockTokens } = this.#sizes;
    let a = 0x811c9dc5;
    let b = 0x9e3779b9;
    for (let start = 0; start < tokenIds.length; start += blockTokens) {
      const end = Math.min(start + blockTokens, tokenIds.length);
      for (let i = start; i < end; i++) {
        a = Math.imul(a ^ tokenIds[i]!, 0x01000193);
        b = Math.imul((b ^ tokenIds[i]!) + 0x7f4a7c15, 0x85ebca6b);
        b ^= b >>> 15;
      }
      // A last block that is not full is none of the full ones.
      const salted = end - start < blockTokens ? a ^ 0x5bd1e995 : a;
      yield (salted >>> 0) * 0x200000 + (b >>> 11);
    }
  }
}
