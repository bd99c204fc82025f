/**
 * What each block contains, which request it belongs to, and where its content came from. For display only: no decision
 * depends on it.
 */
import type { BlockHash } from '../block-hash.ts';
import type { KvCacheManager } from '../kv-cache-manager.ts';
import type { HeldBlocks } from '../kv-connector.ts';
import type { Request } from '../request.ts';
import { type BlockId, type BlockIds, NULL_BLOCK } from '../types.ts';

export interface BlockFact {
  id: BlockId;
  /** The KV cache group whose layers it holds; null if there is only one group. */
  group: number | null;
  /** arriving: KV is being loaded. held: the request ended, a reader may fetch it. left: freed, content not yet overwritten. */
  use: 'running' | 'arriving' | 'held' | 'left';
  /** A prefix cache hit: the content was there before the request. */
  hit: boolean;
  /** Where this engine got the content from. */
  origin: 'computed' | 'pulled';
  /** The request whose content it is, and the block's index in that request's sequence. */
  requestId: string;
  index: number;
  /** Tokens with KV in the block. */
  tokens: number;
  refCount: number;
  /** Its hash in the prefix cache, or null. */
  hash: BlockHash | null;
  /** It lost its hash while no request used it. */
  evicted: boolean;
  /** How often it has lost its hash. */
  evictions: number;
  hold: { direction: 'prefill' | 'decode'; deadlineMs: number } | null;
}

type Content = Pick<BlockFact, 'group' | 'requestId' | 'index' | 'origin' | 'tokens'>;

export class BlockLedger {
  readonly #cache: KvCacheManager;
  readonly #blockSize: number;
  /** What each freed block contained when its request freed it. */
  readonly #left = new Map<BlockId, Content & { wasNamed: boolean }>();

  /** Sets cache.onBlocksFreed, and records blocks freed from now on. */
  constructor(cache: KvCacheManager) {
    this.#cache = cache;
    this.#blockSize = cache.blockSize;
    cache.onBlocksFreed = (request, blockIds) => this.#onBlocksFreed(request, blockIds);
  }

  list(requests: ReadonlyMap<string, Request>, holds: readonly HeldBlocks[]): BlockFact[] {
    const facts = new Map<BlockId, BlockFact>();
    for (const [id, { wasNamed, ...content }] of this.#left) {
      const state = this.#cache.blockState(id);
      const evicted = wasNamed && state.hash === null;
      facts.set(id, { id, use: 'left', hit: false, ...content, ...state, evicted, hold: null });
    }
    const held = new Map(holds.map((hold) => [hold.requestId, hold]));
    for (const [requestId, blockIds] of this.#cache.tables()) {
      const request = requests.get(requestId);
      if (!request) continue;
      const hold = held.get(requestId);
      for (const { id, index, group } of blocksIn(blockIds)) {
        facts.set(id, {
          id,
          use: useOf(request, index, this.#blockSize),
          hit: index * this.#blockSize < request.localHitTokens,
          ...this.#content(request, index, id, group),
          ...this.#cache.blockState(id),
          evicted: false,
          hold: hold ? { direction: hold.direction, deadlineMs: hold.deadline } : null,
        });
      }
    }
    return [...facts.values()].sort((a, b) => a.id - b.id);
  }

  #onBlocksFreed(request: Request, blockIds: BlockIds): void {
    for (const { id, index, group } of blocksIn(blockIds)) {
      const wasNamed = this.#cache.blockState(id).hash !== null;
      this.#left.set(id, { ...this.#content(request, index, id, group), wasNamed });
    }
  }

  #content(request: Request, index: number, id: BlockId, group: number): Content {
    const from = index * this.#blockSize;
    const { requestId, localHitTokens, pulledTokens, numComputedTokens } = request;
    const before = this.#left.get(id);
    const known = this.#cache.numGroups > 1 ? group : null;
    // A hit block keeps the origin of its content.
    if (from < localHitTokens && before) {
      const { origin, tokens } = before;
      return { group: known, requestId, index, origin, tokens };
    }
    const origin = from < localHitTokens + pulledTokens ? 'pulled' : 'computed';
    const tokens = Math.max(0, Math.min(this.#blockSize, numComputedTokens - from));
    return { group: known, requestId, index, origin, tokens };
  }
}

/** The blocks of a table, without null blocks. */
function* blocksIn(blockIds: BlockIds): Generator<{ id: BlockId; index: number; group: number }> {
  for (const [group, ids] of blockIds.entries())
    for (const [index, id] of ids.entries()) if (id !== NULL_BLOCK) yield { id, index, group };
}

function useOf(request: Request, index: number, blockSize: number): BlockFact['use'] {
  // A load continues after its request has ended.
  const loads = request.status === 'waiting_for_remote_kvs' || request.heldFor === 'load';
  if (loads && index * blockSize >= request.localHitTokens) return 'arriving';
  return request.isFinished ? 'held' : 'running';
}
