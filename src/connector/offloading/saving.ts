/**
 * Decides which blocks of a request are offered to the store, and when. Full groups offer each block as it is computed;
 * windowed groups offer the last window of the prompt and of the output. Offers of freed blocks are revoked.
 */
import type { OffloadingConfig } from '../../config/connectors.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import type { BlockHash } from '../../engine/block-hash.ts';
import type { ConnectorRequest } from '../../engine/kv-connector.ts';
import type { BlockIds } from '../../engine/types.ts';
import type { OffloadingMetadata } from './metadata.ts';
import { PendingSaves } from './pending-saves.ts';
import { ReuseTracker } from './reuse-tracker.ts';
import { OfferedWindows } from './windows.ts';

export interface SavingDeps {
  config: Pick<OffloadingConfig, 'promptOnly' | 'storeThreshold' | 'maxTrackerSize'>;
  blockSize: number;
  /** What each KV cache group keeps. */
  groups: readonly KvCacheSpec[];
}

/** How far a request's blocks have been offered. */
export interface SaveProgress {
  /** Leading blocks that need not be offered (again). */
  known: number;
  /** The store has, or was offered, the windows at the end of this many blocks. */
  windowsKnown: number;
  /** Some block of the request was offered. */
  offered: boolean;
}

export class Saving {
  readonly #deps: SavingDeps;
  readonly #windows: OfferedWindows;
  readonly #reuse: ReuseTracker | null;
  readonly #pending = new PendingSaves();
  #revoked = new Set<string>();
  #passed = new Set<string>();

  constructor(deps: SavingDeps) {
    this.#deps = deps;
    this.#windows = new OfferedWindows(deps.groups, deps.blockSize);
    const { storeThreshold, maxTrackerSize } = deps.config;
    this.#reuse = storeThreshold >= 2 ? new ReuseTracker(maxTrackerSize) : null;
  }

  /** What the store must have for a hit, by group; null if there are only full groups. */
  get hitGroups(): readonly KvCacheSpec[] | null {
    return this.#windows.hitGroups;
  }

  /** Whether take() has something to return. */
  get isDue(): boolean {
    return this.#pending.size + this.#revoked.size + this.#passed.size > 0 || this.#windows.hasPassed;
  }

  /** Starts tracking a request. `othersTokens`: its leading tokens, which another engine saves. */
  begin(request: ConnectorRequest, othersTokens: number): SaveProgress {
    if (this.#reuse) for (const hash of request.blockHashes()) this.#reuse.record(hash);
    const known = Math.floor(othersTokens / this.#deps.blockSize);
    return { known, windowsKnown: known, offered: false };
  }

  /** More tokens of the request were computed. */
  computed(request: ConnectorRequest, progress: SaveProgress, blockIds: BlockIds): void {
    const computed = this.#save(request, progress, blockIds);
    // Offer the prompt's window immediately: generated tokens may soon move past it.
    const prompt = this.#savedBlocks(request, request.promptTokenIds.length);
    if (computed >= prompt) this.#saveWindows(request, progress, blockIds, prompt);
  }

  /** The request ended normally. `offerAll`: blocks are offered only now, not while they are computed. */
  ended(request: ConnectorRequest, progress: SaveProgress, blockIds: BlockIds, offerAll: boolean): void {
    if (offerAll) this.#save(request, progress, blockIds);
    const computed = this.#savedBlocks(request, request.numComputedTokens);
    this.#saveWindows(request, progress, blockIds, computed);
    // From now on these blocks are kept.
    this.#windows.forget(request.requestId);
  }

  /** The request ended with this table. Blocks of offered windows may have been freed. */
  leaves(requestId: string, blockIds: BlockIds): void {
    if (this.#windows.ended(requestId, blockIds)) this.#pass(requestId);
  }

  /** The request's blocks are freed: revokes all its offers. */
  revoke(requestId: string): void {
    this.#pending.drop(requestId, 'all');
    this.#windows.forget(requestId);
    this.#revoked.add(requestId);
  }

  /** See PendingSaves.lastOf. */
  lastOf(requestId: string): number {
    return this.#pending.lastOf(requestId);
  }

  take(): Pick<OffloadingMetadata, 'revoked' | 'passed' | 'saves'> {
    for (const requestId of this.#windows.takePassed()) this.#pass(requestId);
    const taken = { revoked: this.#revoked, passed: this.#passed, saves: this.#pending.take() };
    this.#revoked = new Set();
    this.#passed = new Set();
    return taken;
  }

  /** How many full blocks of the first numTokens tokens are to be saved. */
  #savedBlocks({ promptTokenIds, kvTransferParams }: ConnectorRequest, numTokens: number): number {
    const { blockSize, config } = this.#deps;
    const most = kvTransferParams?.max_offload_tokens ?? Number.POSITIVE_INFINITY;
    const saved = config.promptOnly ? Math.min(most, promptTokenIds.length) : most;
    return Math.floor(Math.min(numTokens, saved) / blockSize);
  }

  /** Offers new blocks of full groups. Returns how many blocks are computed and to be saved. */
  #save(request: ConnectorRequest, progress: SaveProgress, blockIds: BlockIds): number {
    const computed = this.#savedBlocks(request, request.numComputedTokens);
    const all = request.blockHashes(computed);
    const hashes = all.slice(progress.known);
    const { fullGroups } = this.#windows;
    const worthSaving = fullGroups?.length === 0 ? 0 : this.#worthSaving(hashes);
    if (worthSaving > 0) {
      const [first, end] = [progress.known, progress.known + worthSaving];
      this.#pending.add({
        requestId: request.requestId,
        hashes: hashes.slice(0, worthSaving),
        ...parentOf(all, first),
        blockIds: blockIds.map((ids) => ids.slice(first, end)),
        ...(fullGroups ? { groups: fullGroups } : {}),
      });
      progress.offered = true;
    }
    progress.known = Math.max(progress.known, computed);
    return computed;
  }

  /** Offers the windows at the end of the first `end` blocks. */
  #saveWindows(request: ConnectorRequest, progress: SaveProgress, blockIds: BlockIds, end: number): void {
    if (end <= progress.windowsKnown) return;
    progress.windowsKnown = end;
    const { requestId } = request;
    const all = request.blockHashes(end);
    const windows = this.#windows
      .endingAt(end, blockIds)
      .map((window) => ({ ...window, hashes: all.slice(window.first) }));
    const worthSaving = windows.filter(({ hashes }) => this.#worthSaving(hashes) === hashes.length);
    for (const { first, hashes, groups, blockIds: ids } of worthSaving)
      this.#pending.add({
        ...{ requestId, hashes, ...parentOf(all, first), blockIds: ids, groups },
        window: true,
      });
    if (worthSaving.length > 0) progress.offered = true;
    this.#windows.offered(request, worthSaving);
  }

  /** How many leading hashes are worth saving. */
  #worthSaving(hashes: readonly string[]): number {
    const reuse = this.#reuse;
    if (!reuse) return hashes.length;
    const first = hashes.findIndex((hash) => reuse.count(hash) < this.#deps.config.storeThreshold);
    return first < 0 ? hashes.length : first;
  }

  /** The request has moved past its offered windows: revokes those offers. */
  #pass(requestId: string): void {
    this.#pending.drop(requestId, 'windows');
    this.#passed.add(requestId);
  }
}

/** The parent of the block at index `first`. */
const parentOf = (hashes: readonly BlockHash[], first: number): { parent?: BlockHash } =>
  first > 0 ? { parent: hashes[first - 1]! } : {};
