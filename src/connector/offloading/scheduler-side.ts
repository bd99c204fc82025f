/**
 * Scheduler side of the offloading connector: asks the store what it has of a request, loads that in place of computing it,
 * and offers what was computed, block by block as it is there. Rules and knobs: vLLM's OffloadingConnector (docs/store.md).
 */
import type { OffloadingConfig } from '../../config/connectors.ts';
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import type {
  ConnectorOutput,
  ConnectorRequest,
  ConnectorStreams,
  ExternalMatch,
  KvConnectorScheduler,
} from '../../engine/kv-connector.ts';
import type { BlockIds, Clock, NoPull } from '../../engine/types.ts';
import type { StoreAnswers } from './answers.ts';
import type { Load, OffloadingMetadata, Save } from './metadata.ts';
import { ReuseTracker } from './reuse-tracker.ts';

export interface OffloadingSchedulerDeps {
  config: OffloadingConfig;
  engineId: string;
  blockSize: number;
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
  /** A load of it is under way, or failed: the store is not asked again. */
  loading: boolean;
  failed: boolean;
  /** Blocks, from the first on, that need not be offered. */
  known: number;
  /** Something of it was offered. */
  offered: boolean;
  /** Tokens that the store had of it when it was asked first; null: no answer yet. */
  stored: number | null;
}

const nothing = (noPull: NoPull | null): ExternalMatch => ({ tokens: 0, noPull });

/** The store hands over what P computed: where NIXL's parameters name blocks, these name nothing. */
const isStoreHandover = (params: KvTransferParams | null): boolean =>
  params?.do_remote_prefill === true && params.remote_port === -1;

export class OffloadingSchedulerSide implements KvConnectorScheduler<OffloadingMetadata>, ConnectorStreams {
  readonly #deps: OffloadingSchedulerDeps;
  readonly #tracked = new Map<string, Tracked>();
  readonly #reuse: ReuseTracker | null;
  #revoked = new Set<string>();
  #lookups: OffloadingMetadata['lookups'][number][] = [];
  #released: string[] = [];
  #loads = new Map<string, Load>();
  #saves: (Save & { requestId: string })[] = [];
  #finished = new Map<string, number>();

  constructor(deps: OffloadingSchedulerDeps) {
    this.#deps = deps;
    const { storeThreshold, maxTrackerSize } = deps.config;
    this.#reuse = storeThreshold >= 2 ? new ReuseTracker(maxTrackerSize) : null;
  }

  /** The store is asked while the request still waits. */
  onNewRequest(request: ConnectorRequest): void {
    const tracked: Tracked = {
      ...{ leaseId: null, lookups: 0, loading: false },
      ...{ failed: false, known: 0, offered: false, stored: null },
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
    tracked.stored ??= found.length * blockSize;
    const most = Math.floor(mostTokens(request.kvTransferParams?.max_load_tokens) / blockSize);
    const chunks = Math.floor(Math.min(found.length, most) / config.blocksPerChunk);
    const tokens = chunks * config.blocksPerChunk * blockSize - numComputedTokens;
    if (tokens > 0 && tokens < config.minLoadTokens)
      return nothing({
        by: 'policy',
        reason: `${tokens} < ${config.minLoadTokens} tokens, the least that is loaded`,
      });
    if (tokens > 0) return { tokens, noPull: null };
    if (found.length === 0) return nothing(null);
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
    tracked.known = Math.max(tracked.known, found.length);
    const first = numLocalComputedTokens / blockSize;
    const end = first + numExternalTokens / blockSize;
    if (numExternalTokens > 0) {
      const pairs = blockIds.flatMap((ids, group) =>
        found.slice(first, end).map((remote, i) => ({ group, remote, local: ids[first + i]! })),
      );
      const twice = secondHopBlocks(request.kvTransferParams, first, end, blockSize);
      this.#loads.set(request.requestId, { leaseId, pairs, numTokens: numExternalTokens, twice });
      tracked.loading = true;
    } else this.#released.push(leaseId);
    answers.forget(leaseId);
    tracked.leaseId = null;
  }

  storedTokens(requestId: string): number | null {
    return this.#tracked.get(requestId)?.stored ?? null;
  }

  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void {
    if (this.#deps.config.saves === 'blocks') this.#save(request, blockIds);
  }

  #save(request: ConnectorRequest, blockIds: BlockIds): void {
    const { requestId, numComputedTokens, promptTokenIds, kvTransferParams } = request;
    const tracked = this.#tracked.get(requestId);
    if (!tracked) return;
    const { blockSize, config } = this.#deps;
    const most = mostTokens(kvTransferParams?.max_offload_tokens);
    const saved = config.promptOnly ? Math.min(most, promptTokenIds.length) : most;
    const computed = Math.floor(Math.min(numComputedTokens, saved) / blockSize);
    const hashes = request.blockHashes(computed).slice(tracked.known);
    const wanted = this.#wanted(hashes);
    if (wanted > 0) {
      this.#saves.push({
        requestId,
        hashes: hashes.slice(0, wanted),
        blockIds: blockIds.map((ids) => ids.slice(tracked.known, tracked.known + wanted)),
      });
      tracked.offered = true;
    }
    tracked.known = Math.max(tracked.known, computed);
  }

  requestPreempted(request: ConnectorRequest): void {
    const tracked = this.#tracked.get(request.requestId);
    if (!tracked) return;
    this.#revoke(request.requestId);
    tracked.known = 0;
    tracked.loading = false;
    this.#ask(request, tracked);
  }

  buildConnectorMeta(): OffloadingMetadata {
    const metadata = {
      revoked: this.#revoked,
      lookups: this.#lookups,
      released: this.#released,
      loads: this.#loads,
      saves: this.#saves,
      finished: this.#finished,
    };
    this.#revoked = new Set();
    this.#lookups = [];
    this.#released = [];
    this.#loads = new Map();
    this.#saves = [];
    this.#finished = new Map();
    return metadata;
  }

  metaDueMs(): number | null {
    const lists = this.#lookups.length + this.#released.length + this.#saves.length;
    const some = lists + this.#revoked.size + this.#loads.size + this.#finished.size > 0;
    return some ? this.#deps.clock.now() : null;
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    for (const { requestId } of output.failedRecving) {
      const tracked = this.#tracked.get(requestId);
      if (!tracked) continue;
      tracked.failed = true;
      // What did not come is computed, and may be offered again.
      tracked.known = 0;
    }
  }

  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null } {
    const { requestId, status } = request;
    const tracked = this.#tracked.get(requestId);
    const ended = status === 'finished_stopped' || status === 'finished_length_capped';
    if (ended && this.#deps.config.saves === 'whole') this.#save(request, blockIds);
    this.#tracked.delete(requestId);
    if (!tracked) return { delayFree: false, kvTransferParams: null };
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
    const hashes = request.blockHashes();
    if (hashes.length === 0 || tracked.failed || params?.max_load_tokens === 0) return;
    const leaseId = `${requestId}/${tracked.lookups++}`;
    tracked.leaseId = leaseId;
    this.#deps.answers.await(leaseId);
    const worthMs = this.#deps.worthOfBlockMs?.(request) ?? null;
    this.#lookups.push({ requestId, leaseId, hashes, wait: isStoreHandover(params), worthMs });
  }

  /** How many of the hashes, from the first on, are worth saving. */
  #wanted(hashes: readonly string[]): number {
    const reuse = this.#reuse;
    if (!reuse) return hashes.length;
    const first = hashes.findIndex((hash) => reuse.count(hash) < this.#deps.config.storeThreshold);
    return first < 0 ? hashes.length : first;
  }

  #revoke(requestId: string): void {
    this.#saves = this.#saves.filter((save) => save.requestId !== requestId);
    this.#revoked.add(requestId);
  }

  /** AIBrix's PD reuse: D finds the prompt by its hashes; nothing is held, and nothing runs out. */
  #handover(
    { requestId, kvTransferParams: params }: ConnectorRequest,
    { stored }: Tracked,
  ): KvTransferParams | null {
    if (!this.#deps.config.handsOver || !params?.do_remote_decode) return null;
    return {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [],
      remote_engine_id: this.#deps.engineId,
      remote_request_id: requestId,
      remote_host: '',
      remote_port: -1,
      tp_size: 1,
      remote_store_num_tokens: stored ?? 0,
    };
  }
}

const mostTokens = (given: number | null | undefined): number => given ?? Number.POSITIVE_INFINITY;

/** Of the blocks [first, end): those that P saved in this very turn, from which D could have had them. */
function secondHopBlocks(
  params: KvTransferParams | null,
  first: number,
  end: number,
  blockSize: number,
): number {
  const before = params?.do_remote_prefill ? params.remote_store_num_tokens : null;
  if (before === null || before === undefined) return 0;
  return Math.max(0, end - Math.max(first, Math.floor(before / blockSize)));
}
