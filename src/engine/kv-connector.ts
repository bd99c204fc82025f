/**
 * The interface between the engine and its KV connector: vLLM's KVConnectorBase_V1
 * (vllm/distributed/kv_transfer/kv_connector/v1/base.py) in camelCase. It has two sides: the scheduler side decides, the
 * worker side moves bytes. The metadata between them (Meta) is opaque to the engine. Facets are optional parts that only
 * some connectors have. The connectors are in src/connector.
 */

import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHash } from './block-hash.ts';
import type { BlockIds, NoPull, RequestStatus } from './types.ts';

/** A connector's read-only view of a request. Connectors keep their own state elsewhere. */
export interface ConnectorRequest {
  readonly requestId: string;
  readonly promptTokenIds: TokenIds;
  /** Prompt and output. */
  readonly allTokenIds: TokenIds;
  readonly numComputedTokens: number;
  readonly kvTransferParams: KvTransferParams | null;
  readonly cacheSalt: string | null;
  readonly status: RequestStatus;
  /** Hashes of the first numBlocks full blocks. Default: all. Computed on demand, also with prefix caching off. */
  blockHashes(numBlocks?: number): readonly BlockHash[];
}

/**
 * How a load ended. 'declined' and 'expired': the holder no longer has the blocks. 'refused': the holder gives this reader
 * nothing, and no reason. 'dead': the holder's engine ended.
 */
export type TransferOutcome = 'done' | 'declined' | 'expired' | 'refused' | 'failed' | 'dead';

/** From the worker side to the scheduler side, polled once per step. Each id is reported once. */
export interface ConnectorOutput {
  finishedSending: readonly string[];
  finishedRecving: readonly string[];
  /** Local blocks whose content did not arrive, and why. Their requests are also in finishedRecving. */
  failedRecving: readonly {
    requestId: string;
    outcome: TransferOutcome;
    message: string;
    invalidBlockIds: BlockIds;
  }[];
  /** The connector's answers may have changed: which tokens it can load, or which holds it can drop. */
  changed: boolean;
}

/** Tokens whose KV can be loaded beyond the local hit. */
export interface ExternalMatch {
  tokens: number;
  /** Why `tokens` is 0 although some were offered; else null. */
  noPull: NoPull | null;
}

/** The fields that name the blocks which a request, refused before it was added, would have loaded. */
export type RefusedRequest = Pick<ConnectorRequest, 'promptTokenIds' | 'kvTransferParams' | 'cacheSalt'>;

/** The deciding side. Synchronous; the worker side moves bytes. */
export interface KvConnectorScheduler<Meta = unknown> {
  onNewRequest(request: ConnectorRequest): void;
  /** The request will not load the blocks it names; tells their holder. */
  requestRefused?(request: RefusedRequest): void;
  /**
   * How many tokens can be loaded beyond numComputedTokens (the local prefix hit). If any, the request then waits
   * (waiting_for_remote_kvs) until the worker side reports it. null: not known yet; called again after a change.
   */
  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null;
  /**
   * Called after every successful allocation from the waiting queue. `blockIds` is the whole table, by group.
   * The first numLocalComputedTokens tokens are local hits.
   */
  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    numLocalComputedTokens: number,
    numExternalTokens: number,
  ): void;
  /** Takes the metadata collected for the worker side since the last call. */
  buildConnectorMeta(): Meta;
  /** When buildConnectorMeta next has something to deliver, ms: now, or later (a heartbeat). null: nothing is due. */
  metaDueMs(): number | null;
  updateConnectorOutput(output: ConnectorOutput): void;
  /** delayFree: keep the blocks allocated until the worker side reports the id in finishedSending. */
  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null };
}

export interface KvConnectorWorker<Meta = unknown> {
  /** Called before anything is computed or loaded into blocks that were freed since the last call. */
  startLoadKv(metadata: Meta): void;
  /** Ends whatever is due (e.g. expired holds), then returns what ended since the last call. */
  getFinished(): ConnectorOutput;
  /** Resolves when getFinished() has something new, or something is due. */
  waitForChange(signal: AbortSignal): Promise<void>;
  /** When getFinished() will next end something on a timer, ms. null or absent: not before something changes. */
  dueMs?(): number | null;
}

/** A hold: blocks of an ended request that are kept for a reader. */
export interface HeldBlocks {
  requestId: string;
  blockIds: BlockIds;
  /** The request's part of the turn: 'prefill' blocks are held for D, 'decode' blocks for the next turn's P. */
  direction: 'prefill' | 'decode';
  /** When the hold expires, ms on the engine's clock. */
  deadline: number;
  reading: boolean;
}

/** Why blocks are needed: requests wait while others run, or nothing can proceed without them. */
export type Pressure = 'waiting' | 'stuck';

/** Facet of connectors that hold blocks of ended requests for readers. */
export interface ConnectorHolds {
  list(): readonly HeldBlocks[];
  /**
   * Drops the least valuable hold and returns its request id; null if none may be dropped. A hold being read is never
   * dropped. The drop is then reported in finishedSending like any other end.
   */
  dropOldest(pressure: Pressure): string | null;
  /**
   * Ends a hold immediately, of either direction. If the request has yet to leave one, it leaves none. No-op for an unknown
   * id.
   */
  release(requestId: string): void;
}

/** Facet of connectors that let readers fetch a request's KV while it is being computed. */
export interface ConnectorStreams {
  /** A step or a load ended: the request's numComputedTokens tokens have KV in these blocks. */
  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void;
  /** The request's blocks were freed, and it will start over. */
  requestPreempted(request: ConnectorRequest): void;
}

export interface KvConnector<Meta = unknown> {
  scheduler: KvConnectorScheduler<Meta>;
  worker: KvConnectorWorker<Meta>;
  holds?: ConnectorHolds;
  streams?: ConnectorStreams;
}
