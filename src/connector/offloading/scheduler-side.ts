/**
 * Scheduler side of the offloading connector: asks the store what it has of a request, loads that in place of computing it,
 * and offers what was computed, block by block as it is there. Rules and knobs: vLLM's OffloadingConnector (docs/store.md).
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
import type { Load, OffloadingMetadata } from './metadata.ts';
import { PendingSaves } from './pending-saves.ts';
import { ReuseTracker } from './reuse-tracker.ts';
import { OfferedWindows } from './windows.ts';

export interface OffloadingSchedulerDeps {
  config: OffloadingConfig;
  engineId: string;
  blockSize: number;
  /** What each KV cache group keeps. */
  groups: readonly KvCacheSpec[];
  clock: Clock;
  answers: StoreAnswers;
  /** As ConnectorDeps has it. */
  worthOfBlockMs?: ((request: ConnectorRequest) => number | null) | undefined;
}

interface Tracked {
  /** What the store was asked for it last; null: nothing, or that is used up. */
  leaseId: string | null;
  /** Lookups made. */
  lookups: number;
  /** A load of it failed: the store is not asked again. */
  failed: boolean;
  /** Blocks, from the first on, that need not be offered. */
  known: number;
  /** Blocks at whose end the store has, or was offered, what windows see. */
  windowsKnown: number;
  /** Something of it was offered. */
  offered: boolean;
  /** Tokens that the store had of it when it was asked first; null: no answer yet. */
  stored: number | null;
}

const nothing = (noPull: NoPull | null): ExternalMatch => ({ tokens: 0, noPull });

export class OffloadingSchedulerSide implements KvConnectorScheduler<OffloadingMetadata>, ConnectorStreams {
  readonly #deps: OffloadingSchedulerDeps;
  readonly #tracked = new Map<string, Tracked>();
  readonly #reuse: ReuseTracker | null;
  readonly #windows: OfferedWindows;
  readonly #saves = new PendingSaves();
  #revoked = new Set<string>();
  #passed = new Set<string>();
  #lookups: OffloadingMetadata['lookups'][number][] = [];
  #released: string[] = [];
  #loads = new Map<string, Load>();
  #finished = new Map<string, number>();

  constructor(deps: OffloadingSchedulerDeps) {
    this.#deps = deps;
    this.#windows = new OfferedWindows(deps.groups, deps.blockSize);
    const { storeThreshold, maxTrackerSize } = deps.config;
    this.#reuse = storeThreshold >= 2 ? new ReuseTracker(maxTrackerSize) : null;
  }

  /** The store is asked while the request still waits. */
  onNewRequest(request: ConnectorRequest): void {
    const tracked: Tracked = {
      ...{ leaseId: null, lookups: 0, failed: false },
      ...{ known: 0, windowsKnown: 0, offered: false, stored: null },
    };
    this.#tracked.set(request.requestId, tracked);
    if (this.#reuse) for (const hash of request.blockHashes()) this.#reuse.ask(hash);
    this.#ask(request, tracked);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null {
    const { blockSize, config, answers } = this.#deps;
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked?.leaseId) return nothing(null);
    const found = answers.of(tracked.leaseId);
    if (!found) return null;
    const length = found[0]?.length ?? 0;
    tracked.stored ??= length * blockSize;
    const chunks = Math.floor(Math.min(length, this.#mostLoaded(request)) / config.blocksPerChunk);
    const tokens = chunks * config.blocksPerChunk * blockSize - numComputedTokens;
    if (tokens > 0 && tokens < config.minLoadTokens)
      return nothing({
        by: 'policy',
        reason: `${tokens} < ${config.minLoadTokens} tokens, the least that is loaded`,
      });
    if (tokens > 0) return { tokens, noPull: null };
    if (length === 0) return nothing(null);
    return nothing({
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
    const found = answers.of(leaseId) ?? [];
    const length = found[0]?.length ?? 0;
    tracked.known = Math.max(tracked.known, length);
    tracked.windowsKnown = Math.max(tracked.windowsKnown, length);
    const first = numLocalComputedTokens / blockSize;
    const end = first + numExternalTokens / blockSize;
    const pairs = pairsOf(found, blockIds, first, end);
    if (numExternalTokens > 0) {
      const second = Math.max(first, secondHopsFrom(request.kvTransferParams, blockSize));
      const twice = second < end ? pairsOf(found, blockIds, second, end) : [];
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
    if (!tracked || this.#deps.config.saves !== 'blocks') return;
    const computed = this.#save(request, tracked, blockIds);
    // As soon as it is there: what is generated next may pass it.
    const prompt = this.#savedBlocks(request, request.promptTokenIds.length);
    if (computed >= prompt) this.#saveWindows(request, tracked, blockIds, prompt);
  }

  /** How many blocks of the first tokens are to be saved. */
  #savedBlocks({ promptTokenIds, kvTransferParams }: ConnectorRequest, numTokens: number): number {
    const { blockSize, config } = this.#deps;
    const most = mostTokens(kvTransferParams?.max_offload_tokens);
    const saved = config.promptOnly ? Math.min(most, promptTokenIds.length) : most;
    return Math.floor(Math.min(numTokens, saved) / blockSize);
  }

  /** What of groups that keep everything is new; returns how many blocks there are. */
  #save(request: ConnectorRequest, tracked: Tracked, blockIds: BlockIds): number {
    const computed = this.#savedBlocks(request, request.numComputedTokens);
    const hashes = request.blockHashes(computed).slice(tracked.known);
    const { fullGroups } = this.#windows;
    const wanted = fullGroups?.length === 0 ? 0 : this.#wanted(hashes);
    if (wanted > 0) {
      const [first, end] = [tracked.known, tracked.known + wanted];
      this.#saves.add({
        requestId: request.requestId,
        hashes: hashes.slice(0, wanted),
        blockIds: blockIds.map((ids) => ids.slice(first, end)),
        ...(fullGroups ? { groups: fullGroups } : {}),
      });
      tracked.offered = true;
    }
    tracked.known = Math.max(tracked.known, computed);
    return computed;
  }

  /** What windows see at the end of the first `end` blocks. */
  #saveWindows(request: ConnectorRequest, tracked: Tracked, blockIds: BlockIds, end: number): void {
    if (end <= tracked.windowsKnown) return;
    tracked.windowsKnown = end;
    const { requestId } = request;
    const windows = this.#windows.endingAt(end, blockIds).map((one) => {
      const hashes = request.blockHashes(end).slice(one.first);
      return { ...one, hashes };
    });
    const wanted = windows.filter(({ hashes }) => this.#wanted(hashes) === hashes.length);
    for (const { hashes, groups, blockIds: ids } of wanted)
      this.#saves.add({ requestId, hashes, blockIds: ids, groups, window: true });
    if (wanted.length > 0) tracked.offered = true;
    this.#windows.offered(request, wanted);
  }

  requestPreempted(request: ConnectorRequest): void {
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked) return;
    this.#revoke(request.requestId);
    tracked.known = 0;
    tracked.windowsKnown = 0;
    this.#ask(request, tracked);
  }

  buildConnectorMeta(): OffloadingMetadata {
    for (const requestId of this.#windows.takePassed()) this.#pass(requestId);
    const metadata = {
      revoked: this.#revoked,
      passed: this.#passed,
      lookups: this.#lookups,
      released: this.#released,
      loads: this.#loads,
      saves: this.#saves.take(),
      finished: this.#finished,
    };
    this.#revoked = new Set();
    this.#passed = new Set();
    this.#lookups = [];
    this.#released = [];
    this.#loads = new Map();
    this.#finished = new Map();
    return metadata;
  }

  metaDueMs(): number | null {
    const lists = this.#lookups.length + this.#released.length + this.#saves.size;
    const sets = this.#revoked.size + this.#passed.size + this.#loads.size + this.#finished.size;
    return lists + sets > 0 || this.#windows.hasPassed ? this.#deps.clock.now() : null;
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    for (const { requestId } of output.failedRecving) {
      const tracked = this.#tracked.get(requestId);
      if (!tracked) continue;
      tracked.failed = true;
      // What did not come is computed, and may be offered again.
      tracked.known = 0;
      tracked.windowsKnown = 0;
    }
  }

  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null } {
    const { requestId, status } = request;
    const tracked = this.#tracked.get(requestId);
    const ended = status === 'finished_stopped' || status === 'finished_length_capped';
    if (this.#windows.ended(requestId, blockIds)) this.#pass(requestId);
    this.#tracked.delete(requestId);
    if (!tracked) return { delayFree: false, kvTransferParams: null };
    if (ended) {
      if (this.#deps.config.saves === 'whole') this.#save(request, tracked, blockIds);
      const computed = this.#savedBlocks(request, request.numComputedTokens);
      this.#saveWindows(request, tracked, blockIds, computed);
      // They stay from now on.
      this.#windows.forget(requestId);
    }
    if (tracked.leaseId) {
      this.#deps.answers.forget(tracked.leaseId);
      this.#released.push(tracked.leaseId);
    }
    if (!ended) {
      this.#revoke(requestId);
      return { delayFree: false, kvTransferParams: null };
    }
    const numBlocks = blockIds.reduce((sum, ids) => sum + ids.length, 0);
    if (tracked.offered) this.#finished.set(requestId, numBlocks);
    return { delayFree: tracked.offered, kvTransferParams: this.#handover(request, tracked) };
  }

  #ask(request: ConnectorRequest, tracked: Tracked): void {
    const { requestId, kvTransferParams: params } = request;
    // A prefix with windows cannot be cut short later.
    const groups = this.#windows.wanted;
    const hashes = groups ? request.blockHashes(this.#mostLoaded(request)) : request.blockHashes();
    if (hashes.length === 0 || tracked.failed || params?.max_load_tokens === 0) return;
    const leaseId = `${requestId}/${tracked.lookups++}`;
    tracked.leaseId = leaseId;
    this.#deps.answers.await(leaseId);
    const worthMs = this.#deps.worthOfBlockMs?.(request) ?? null;
    const asked = { requestId, leaseId, hashes, ...awaited(params), worthMs };
    const chunk = this.#deps.config.blocksPerChunk;
    this.#lookups.push(groups ? { ...asked, groups, chunk } : asked);
  }

  /** Blocks. */
  #mostLoaded({ kvTransferParams }: ConnectorRequest): number {
    return Math.floor(mostTokens(kvTransferParams?.max_load_tokens) / this.#deps.blockSize);
  }

  /** How many of the hashes, from the first on, are worth saving. */
  #wanted(hashes: readonly string[]): number {
    const reuse = this.#reuse;
    if (!reuse) return hashes.length;
    const first = hashes.findIndex((hash) => reuse.count(hash) < this.#deps.config.storeThreshold);
    return first < 0 ? hashes.length : first;
  }

  #revoke(requestId: string): void {
    this.#saves.drop(requestId, 'all');
    this.#windows.forget(requestId);
    this.#revoked.add(requestId);
  }

  /** Its tokens went on, and what its windows saw is given back. */
  #pass(requestId: string): void {
    this.#saves.drop(requestId, 'windows');
    this.#passed.add(requestId);
  }

  #handover(request: ConnectorRequest, tracked: Tracked): KvTransferParams | null {
    const { config, engineId } = this.#deps;
    if (!config.handsOver || !request.kvTransferParams?.do_remote_decode) return null;
    const { requestId } = request;
    const lastOffer = this.#saves.lastOf(requestId);
    return handoverParams({ engineId, requestId, stored: tracked.stored ?? 0, lastOffer });
  }
}

const mostTokens = (given: number | null | undefined): number => given ?? Number.POSITIVE_INFINITY;

/** The store's blocks [first, end) and those here, by group, but for those before a window. */
function pairsOf(found: BlockIds, table: BlockIds, first: number, end: number): BlockPair[] {
  return found.flatMap((ids, group) =>
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
