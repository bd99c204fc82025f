/**
 * What the engine and its KV connector exchange: vLLM's interface (vllm/distributed/kv_transfer/kv_connector/v1/base.py) in
 * camelCase. Two sides: the scheduler's decides, the worker's moves bytes. What the one tells the other (Meta) is theirs
 * alone: the engine passes it on unread. What only some connectors do are facets. The connectors are in src/connector.
 */

import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { BlockHash } from './block-hash.ts';
import type { BlockIds, NoPull, RequestStatus } from './types.ts';

/** What the scheduler sees of a request; the connector reads it, and keeps its own state elsewhere. */
export interface ConnectorRequest {
  readonly requestId: string;
  readonly promptTokenIds: TokenIds;
  /** Prompt and output. */
  readonly allTokenIds: TokenIds;
  readonly numComputedTokens: number;
  readonly kvTransferParams: KvTransferParams | null;
  readonly cacheSalt: string | null;
  readonly status: RequestStatus;
  /** Of its full blocks, the first numBlocks of them: made when asked for, whether prefixes are cached here or not. */
  blockHashes(numBlocks?: number): readonly BlockHash[];
}

/**
 * How a load ended. 'declined' and 'expired': whoever had the blocks has them no longer. 'refused': there are none for who
 * asks so, and no more is said. 'dead': its engine ended.
 */
export type TransferOutcome = 'done' | 'declined' | 'expired' | 'refused' | 'failed' | 'dead';

/** Worker side to scheduler side, polled once a step. Each id is reported once. */
export interface ConnectorOutput {
  finishedSending: readonly string[];
  finishedRecving: readonly string[];
  /** Local blocks whose content did not arrive, with why. Their requests are in finishedRecving too. */
  failedRecving: readonly {
    requestId: string;
    outcome: TransferOutcome;
    message: string;
    invalidBlockIds: BlockIds;
  }[];
  /** Asked again, the connector may answer otherwise than before: about tokens it can give, or holds it can drop. */
  changed: boolean;
}

/** Tokens whose KV can be loaded beyond the local hit. */
export interface ExternalMatch {
  tokens: number;
  /** Why there are none, where some were offered. */
  noPull: NoPull | null;
}

/** What a request was to load, of one that was never added. */
export type RefusedRequest = Pick<ConnectorRequest, 'promptTokenIds' | 'kvTransferParams' | 'cacheSalt'>;

/** Synchronous: it decides, the worker side moves bytes. */
export interface KvConnectorScheduler<Meta = unknown> {
  onNewRequest(request: ConnectorRequest): void;
  /** Nobody will load what the request names: who holds it is told so. */
  requestRefused?(request: RefusedRequest): void;
  /**
   * What can be loaded beyond numComputedTokens (the local prefix hit). The request then waits (waiting_for_remote_kvs)
   * until the worker side reports it. null: not known yet; asked again when something has changed.
   */
  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null;
  /**
   * Called after every successful allocation from the waiting queue. `blockIds` is the whole table, by group;
   * the first numLocalComputedTokens are local hits.
   */
  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    numLocalComputedTokens: number,
    numExternalTokens: number,
  ): void;
  /** What the worker side must know. Drained. */
  buildConnectorMeta(): Meta;
  /** When buildConnectorMeta has something to say, milliseconds: at once, or later (a heartbeat); null: nothing yet. */
  metaDueMs(): number | null;
  updateConnectorOutput(output: ConnectorOutput): void;
  /** delayFree: the blocks stay allocated until the worker side reports the id in finishedSending. */
  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null };
}

export interface KvConnectorWorker<Meta = unknown> {
  /** Called before anything is computed into, or fetched into, blocks that were given back since the last call. */
  startLoadKv(metadata: Meta): void;
  /** Ends what is due, then returns what ended since the last call. */
  getFinished(): ConnectorOutput;
  /** Resolves when getFinished() has something new, or something is due. */
  waitForChange(signal: AbortSignal): Promise<void>;
  /** When getFinished() will end something by itself, milliseconds; null, or absent: not before something changes. */
  dueMs?(): number | null;
}

/** Blocks that an ended request leaves for a reader. */
export interface HeldBlocks {
  requestId: string;
  blockIds: BlockIds;
  /** The part of the turn that the request was: 'prefill' leaves blocks for D, 'decode' for the next turn's P. */
  direction: 'prefill' | 'decode';
  /** Own clock, milliseconds. */
  deadline: number;
  reading: boolean;
}

/** Why blocks are wanted back: others run, and someone waits beside them; or nobody at all gets on without. */
export type Pressure = 'waiting' | 'stuck';

/** Facet of connectors that keep blocks of ended requests for readers. */
export interface ConnectorHolds {
  list(): readonly HeldBlocks[];
  /**
   * Gives up the hold that is missed least, and returns its request id; null when none may go, as none may that is being
   * read. It is then reported in finishedSending like any other end.
   */
  dropOldest(pressure: Pressure): string | null;
  /** Ends a hold at once, whoever it is for. No-op for an unknown id. */
  release(requestId: string): void;
}

/** Facet of connectors that let a request's KV be read while it is computed. */
export interface ConnectorStreams {
  /** A step or a load ended: the request's numComputedTokens tokens have KV in these blocks. */
  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void;
  /** The request gave its blocks back and will start over. */
  requestPreempted(request: ConnectorRequest): void;
}

export interface KvConnector<Meta = unknown> {
  scheduler: KvConnectorScheduler<Meta>;
  worker: KvConnectorWorker<Meta>;
  holds?: ConnectorHolds;
  streams?: ConnectorStreams;
}
