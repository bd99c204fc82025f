/**
 * What a router believes engines have cached, from where it sent prompts: AIBrix's prefix hash table
 * (pkg/utils/prefixcacheindexer) and llm-d's approximate prefix index. It does not learn of evictions.
 */
import type { TokenIds } from '../../config/token-ids.ts';
import { type Entry, entryOf, Queue } from '../../engine/entry-queue.ts';

interface Block {
  /** A second hash against false matches, which would cost time but not correctness. */
  check: number;
  /** When each engine was last sent this block, in milliseconds. */
  engines: Map<string, number>;
  lastMs: number;
  /** Queue entry of the block's hash. */
  entry: Entry<number>;
}

export interface PrefixTableSizes {
  /** Tokens per block of this table, independent of the engines' KV blocks. */
  blockTokens: number;
  maxBlocks: number;
  /** Milliseconds after its last credit at which a block is forgotten. */
  keepMs: number;
}

export class PrefixTable {
  readonly #sizes: PrefixTableSizes;
  /** By the hash of all tokens up to the block's end. */
  readonly #blocks = new Map<number, Block>();
  /** The most recently credited block is the newest. */
  readonly #queue = new Queue<number>();

  constructor(sizes: PrefixTableSizes) {
    this.#sizes = sizes;
  }

  /** Number of a prompt's blocks, a partial last one included. */
  blocksOf(tokenIds: TokenIds): number {
    return Math.ceil(tokenIds.length / this.#sizes.blockTokens);
  }

  /** Leading blocks by engine; engines with none are absent. */
  match(tokenIds: TokenIds, nowMs: number): ReadonlyMap<string, number> {
    const found: Block[] = [];
    this.#eachBlock(tokenIds, (hash, check) => {
      const block = this.#blocks.get(hash);
      if (block?.check !== check || nowMs - block.lastMs > this.#sizes.keepMs) return false;
      found.push(block);
      return true;
    });
    const matched = new Map<string, number>();
    // Prompts are credited whole, so an engine that has a block has those before it. Equal counts therefore mean the
    // same engines.
    for (let i = found.length - 1; i >= 0; i--) {
      const { engines } = found[i]!;
      if (engines.size === found[i + 1]?.engines.size) continue;
      for (const engineId of engines.keys()) if (!matched.has(engineId)) matched.set(engineId, i + 1);
    }
    return matched;
  }

  /** Call when the engine was sent this prompt. */
  credit(tokenIds: TokenIds, engineId: string, nowMs: number): void {
    const hashes: [number, number][] = [];
    this.#eachBlock(tokenIds, (hash, check) => {
      hashes.push([hash, check]);
      return true;
    });
    // Backwards, so that a prompt's last block is forgotten first.
    for (const [hash, check] of hashes.reverse()) this.#creditBlock(hash, check, engineId, nowMs);
    for (let oldest = this.#queue.oldest(); oldest; oldest = this.#queue.oldest()) {
      const { lastMs } = this.#blocks.get(oldest.key)!;
      if (this.#blocks.size <= this.#sizes.maxBlocks && nowMs - lastMs <= this.#sizes.keepMs) break;
      this.#queue.remove(oldest);
      this.#blocks.delete(oldest.key);
    }
  }

  #creditBlock(hash: number, check: number, engineId: string, nowMs: number): void {
    let block = this.#blocks.get(hash);
    if (!block) {
      block = { check, engines: new Map(), lastMs: nowMs, entry: entryOf(hash) };
      this.#blocks.set(hash, block);
      this.#queue.push(block.entry);
    } else {
      if (block.check !== check) block.engines = new Map();
      this.#queue.toHead(block.entry);
    }
    block.check = check;
    block.engines.set(engineId, nowMs);
    block.lastMs = nowMs;
  }

  /** Calls `visit` for each block until it returns false. A block's hash covers all tokens before it. */
  #eachBlock(tokenIds: TokenIds, visit: (hash: number, check: number) => boolean): void {
    const { blockTokens } = this.#sizes;
    let hash = 0x811c9dc5 | 0;
    let check = 0x9e3779b9 | 0;
    for (let start = 0; start < tokenIds.length; start += blockTokens) {
      const end = Math.min(start + blockTokens, tokenIds.length);
      for (let i = start; i < end; i++) {
        hash = Math.imul(hash ^ tokenIds.at(i)!, 0x01000193);
        check = Math.imul(check ^ tokenIds.at(i)!, 0x85ebca6b);
        check ^= check >>> 15;
      }
      // A partial last block gets a hash different from any full block's.
      const full = end - start === blockTokens;
      if (!visit(full ? hash : hash ^ 0x5bd1e995, check)) return;
    }
  }
}
