/**
 * Scheduler side of the offloading connector: asks the store what it has of a request, loads that instead of computing it,
 * and offers computed blocks as they become available. Rules and settings are vLLM's OffloadingConnector's (docs/store.md).
 */
import type { OffloadingConfig } from '../../config/connectors.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import type {
  ConnectorOutput,
  ConnectorRequest,
  ConnectorStreams,
  ExternalMatch,
  KvConnectorScheduler,
} from '../../engine/kv-connector.ts';
import { type BlockIds, type Clock, type NoPull, NULL_BLOCK } from '../../engine/types.ts';
import { invariant } from '../../errors.ts';
import type { BlockPair } from '../../transport/types.ts';
import type { StoreAnswers } from './answers.ts';
import { awaited, handoverParams, secondHopsFrom } from './handover.ts';
import type { Load, Lookup, OffloadingMetadata } from './metadata.ts';
import { type SaveProgress, Saving } from './saving.ts';

export interface OffloadingSchedulerDeps {
  config: OffloadingConfig;
  engineId: string;
  blockSize: number;
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
  clock: Clock;
  answers: StoreAnswers;
  /** Asks the store immediately, not with the next step: the answer is then there when a long step of other requests ends. */
  sendLookup: (lookup: Lookup) => void;
  /** See ConnectorDeps. */
  worthOfBlockMs?: ((request: ConnectorRequest) => number | null) | undefined;
  /** P hands prompts to D by another connector: D loads from the store only what it had before, and saves only its output. */
  peersHandOver: boolean;
}

interface Tracked {
  /** Lease of the last lookup; null if there was none, or it has been used. */
  leaseId: string | null;
  /** Number of lookups so far. */
  lookups: number;
  /** The most tokens to ask the store for. */
  maxTokens: number;
  /** A load failed, so the store is not asked again. */
  failed: boolean;
  progress: SaveProgress;
  /** Tokens that the store had at the first lookup; null if there is no answer yet. */
  stored: number | null;
}

const noMatch = (noPull: NoPull | null): ExternalMatch => ({ tokens: 0, noPull });

export class OffloadingSchedulerSide implements KvConnectorScheduler<OffloadingMetadata>, ConnectorStreams {
  readonly #deps: OffloadingSchedulerDeps;
  readonly #tracked = new Map<string, Tracked>();
  readonly #saving: Saving;
  #released: string[] = [];
  #loads = new Map<string, Load>();
  #finished = new Map<string, number>();

  constructor(deps: OffloadingSchedulerDeps) {
    this.#deps = deps;
    this.#saving = new Saving(deps);
  }

  /** Asks the store while the request is still waiting. */
  onNewRequest(request: ConnectorRequest): void {
    const { promptTokenIds, kvTransferParams: params } = request;
    const fromPeer = this.#deps.peersHandOver && params?.do_remote_prefill === true;
    const progress = this.#saving.begin(request, fromPeer ? promptTokenIds.length : 0);
    const maxTokens = tokenLimit(fromPeer ? params.remote_store_num_tokens : null);
    const tracked: Tracked = { leaseId: null, lookups: 0, maxTokens, failed: false, progress, stored: null };
    this.#tracked.set(request.requestId, tracked);
    this.#lookup(request, tracked);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null {
    const { blockSize, config, answers } = this.#deps;
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked?.leaseId || numComputedTokens >= tracked.maxTokens) return noMatch(null);
    const stored = answers.of(tracked.leaseId);
    if (!stored) return null;
    const length = stored[0]?.length ?? 0;
    tracked.stored ??= length * blockSize;
    const chunks = Math.floor(Math.min(length, this.#mostLoaded(request)) / config.blocksPerChunk);
    const tokens = chunks * config.blocksPerChunk * blockSize - numComputedTokens;
    if (tokens > 0 && tokens < config.minLoadTokens)
      return noMatch({
        by: 'policy',
        reason: `${tokens} < ${config.minLoadTokens} tokens, the minimum to load`,
      });
    if (tokens > 0) return { tokens, noPull: null };
    if (length === 0) return noMatch(null);
    return noMatch({
      by: 'offer',
      reason: `the local hit of ${numComputedTokens} covers what the store has`,
    });
  }

  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    numLocalComputedTokens: number,
    numExternalTokens: number,
  ): void {
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked?.leaseId) return;
    const { blockSize, answers } = this.#deps;
    const { leaseId } = tracked;
    const stored = answers.of(leaseId) ?? [];
    const length = stored[0]?.length ?? 0;
    const { progress } = tracked;
    progress.known = Math.max(progress.known, length);
    progress.windowsKnown = Math.max(progress.windowsKnown, length);
    const first = numLocalComputedTokens / blockSize;
    const end = first + numExternalTokens / blockSize;
    const pairs = pairsOf(stored, blockIds, first, end);
    if (numExternalTokens > 0) {
      const second = Math.max(first, secondHopsFrom(request.kvTransferParams, blockSize));
      const twice = second < end ? pairsOf(stored, blockIds, second, end) : [];
      this.#loads.set(request.requestId, { leaseId, pairs, numTokens: numExternalTokens, twice });
    } else this.#released.push(leaseId);
    answers.forget(leaseId);
    tracked.leaseId = null;
  }

  storedTokens(requestId: string): number | null {
    return this.#tracked.get(requestId)?.stored ?? null;
  }

  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void {
    const tracked = this.#tracked.get(request.requestId);
    if (tracked && this.#deps.config.saves === 'blocks')
      this.#saving.computed(request, tracked.progress, blockIds);
  }

  requestPreempted(request: ConnectorRequest): void {
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked) return;
    this.#saving.revoke(request.requestId);
    Object.assign(tracked.progress, { known: 0, windowsKnown: 0, offered: false });
    this.#lookup(request, tracked);
  }

  buildConnectorMeta(): OffloadingMetadata {
    const metadata = {
      ...this.#saving.take(),
      released: this.#released,
      loads: this.#loads,
      finished: this.#finished,
    };
    this.#released = [];
    this.#loads = new Map();
    this.#finished = new Map();
    return metadata;
  }

  metaDueMs(): number | null {
    const own = this.#released.length + this.#loads.size + this.#finished.size;
    return own > 0 || this.#saving.isDue ? this.#deps.clock.now() : null;
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    for (const { requestId } of output.failedRecving) {
      const tracked = this.#tracked.get(requestId);
      if (!tracked) continue;
      tracked.failed = true;
      // Blocks that did not arrive are computed, and may be offered again.
      Object.assign(tracked.progress, { known: 0, windowsKnown: 0 });
    }
  }

  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null } {
    const { requestId, status } = request;
    const tracked = this.#tracked.get(requestId);
    const ended = status === 'finished_stopped' || status === 'finished_length_capped';
    // False during a load and after a preemption.
    const hasBlocks = blockIds.some((ids) => ids.length > 0);
    this.#saving.leaves(requestId, blockIds);
    this.#tracked.delete(requestId);
    if (!tracked) return { delayFree: false, kvTransferParams: null };
    const { progress } = tracked;
    if (ended && hasBlocks)
      this.#saving.ended(request, progress, blockIds, this.#deps.config.saves === 'whole');
    if (tracked.leaseId) {
      this.#deps.answers.forget(tracked.leaseId);
      this.#released.push(tracked.leaseId);
    }
    if (!ended || !hasBlocks) this.#saving.revoke(requestId);
    if (!ended) return { delayFree: false, kvTransferParams: null };
    const delayFree = progress.offered && hasBlocks;
    if (delayFree) this.#finished.set(requestId, numBlocksOf(blockIds));
    return { delayFree, kvTransferParams: this.#handover(request, tracked) };
  }

  #lookup(request: ConnectorRequest, tracked: Tracked): void {
    const { requestId, kvTransferParams: params } = request;
    const groups = this.#saving.hitGroups;
    // A hit with windows cannot be shortened later, so the limit applies to the lookup.
    const most = groups ? this.#mostLoaded(request) : Number.POSITIVE_INFINITY;
    const hashes = request.blockHashes(Math.min(most, Math.floor(tracked.maxTokens / this.#deps.blockSize)));
    if (hashes.length === 0 || tracked.failed || params?.max_load_tokens === 0) return;
    const leaseId = `${requestId}/${tracked.lookups++}`;
    tracked.leaseId = leaseId;
    this.#deps.answers.await(leaseId);
    const worthMs = this.#deps.worthOfBlockMs?.(request) ?? null;
    const lookup = { requestId, leaseId, hashes, ...awaited(params), worthMs };
    const chunk = this.#deps.config.blocksPerChunk;
    this.#deps.sendLookup(groups ? { ...lookup, groups, chunk } : lookup);
  }

  /** The most blocks that may be loaded (max_load_tokens). */
  #mostLoaded({ kvTransferParams }: ConnectorRequest): number {
    return Math.floor(tokenLimit(kvTransferParams?.max_load_tokens) / this.#deps.blockSize);
  }

  #handover(request: ConnectorRequest, tracked: Tracked): KvTransferParams | null {
    const { config, engineId } = this.#deps;
    if (!config.handsOver || !request.kvTransferParams?.do_remote_decode) return null;
    const { requestId } = request;
    const lastOffer = this.#saving.lastOf(requestId);
    return handoverParams({ engineId, requestId, stored: tracked.stored ?? 0, lastOffer });
  }
}

/** Number of blocks without null blocks. */
const numBlocksOf = (table: BlockIds): number =>
  table.reduce((sum, ids) => sum + ids.filter((id) => id !== NULL_BLOCK).length, 0);

const tokenLimit = (limit: number | null | undefined): number => limit ?? Number.POSITIVE_INFINITY;

/** Pairs of the store's and local blocks [first, end) of every group, except those before a window. */
function pairsOf(stored: BlockIds, table: BlockIds, first: number, end: number): BlockPair[] {
  return stored.flatMap((ids, group) =>
    ids.slice(first, end).flatMap((remote, i) => {
      const local = table[group]![first + i]!;
      if (local === NULL_BLOCK) return [];
      invariant(
        remote !== NULL_BLOCK,
        () => `the store has no block ${first + i} of group ${group}, which is seen`,
      );
      return [{ group, remote, local }];
    }),
  );
}
