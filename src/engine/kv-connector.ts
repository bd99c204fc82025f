/**
 * What the engine and its KV connector exchange: what to pull and to hold, step by step, and how that ended. Two sides, as
 * in vLLM: the scheduler's decides, the worker's moves. The connector is src/connector; nothing here moves anything.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { PrefixClaim } from './prefix-claim.ts';
import type { BlockId, BlockIds, RequestStatus } from './types.ts';

/** What the scheduler sees of a request; the connector reads it, and keeps its own state elsewhere. */
export interface ConnectorRequest {
  readonly requestId: string;
  readonly promptTokenIds: readonly number[];
  /** Prompt and output. */
  readonly allTokenIds: readonly number[];
  readonly numComputedTokens: number;
  readonly kvTransferParams: KvTransferParams | null;
  readonly cacheSalt: string | null;
  readonly status: RequestStatus;
}

/** One block to fetch: the pairing is by index from the start of the sequence, never by trimming a suffix. */
export interface BlockPair {
  group: number;
  remote: BlockId;
  local: BlockId;
}

export interface RemoteAddress {
  engineId: string;
  host: string;
  port: number;
}

/** What of a prompt has KV: its first numTokens tokens, in these blocks. */
export interface ComputedBlocks {
  blockIds: BlockIds;
  numTokens: number;
  /** The whole prompt's. */
  tokenIds: readonly number[];
  cacheSalt: string | null;
}

/** A hold at another engine, and what shows that one has business with it. */
export interface HoldRef {
  requestId: string;
  /** All of its tokens, as its parameters tell them. */
  held: PrefixClaim;
}

/** What a READ shows its holder, who compares it with what it has. */
export interface ReadClaim {
  held: PrefixClaim;
  /** Of the reader's own prompt, as far as its blocks are to be read. */
  prompt: PrefixClaim;
}

/** A pull that the worker side must start. No pairs: only the notification is sent, so that the holder frees. */
export interface RecvRequest {
  remote: RemoteAddress & {
    requestId: string;
    claim: ReadClaim;
    /** Holder's clock, seconds (vLLM's remote_blocks_expiry_time); null when the holder gave none. */
    blocksExpiryTime: number | null;
  };
  pairs: readonly BlockPair[];
  /** Tokens whose KV the pairs bring. */
  numTokens: number;
  /** The holder may still be computing them: `remote` of a pair is the block's index in its sequence, not an id. */
  streamed?: true;
}

/** What a finished request leaves for its reader. */
export interface SendRequest {
  blockIds: BlockIds;
  /** Those whose KV is in the blocks; nobody is served who does not know them and the salt. */
  tokenIds: readonly number[];
  cacheSalt: string | null;
  /** Own clock, milliseconds. */
  deadline: number;
  /** 'prefill' holds P's blocks for D (lease, heartbeats); 'decode' holds D's blocks for P (plain TTL). */
  direction: 'prefill' | 'decode';
}

/** Scheduler side to worker side, once a step. Drained when built. */
export interface ConnectorMetadata {
  reqsToRecv: ReadonlyMap<string, RecvRequest>;
  reqsToSend: ReadonlyMap<string, SendRequest>;
  /** Requests that this step schedules for the first time and that may later hold blocks. */
  reqsInBatch: ReadonlySet<string>;
  /** Requests that ended without leaving anything to send. */
  reqsNotProcessed: ReadonlySet<string>;
  /**
   * Requests whose KV is read while it is computed, with what is there now; fewer tokens than before: those blocks were
   * given back.
   */
  computed: ReadonlyMap<string, ComputedBlocks>;
  /** Streamed pulls that nobody wants any more. */
  reqsToCancel: ReadonlySet<string>;
  /** Holds to keep alive, by holder. */
  heartbeats: readonly { remote: RemoteAddress; holds: readonly HoldRef[] }[];
}

/**
 * How a pull ended. 'declined' and 'expired': the holder no longer has the blocks. 'refused': it has none for who asks so,
 * and says no more. 'dead': its engine ended.
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
}

/**
 * Scheduler side of a KV connector, vLLM's interface in camelCase (vllm/distributed/kv_transfer/kv_connector/v1/base.py).
 * Synchronous: it decides, the worker side moves bytes.
 */
export interface KvConnectorScheduler {
  onNewRequest(request: ConnectorRequest): void;
  /**
   * Tokens whose KV a remote can give beyond numComputedTokens (the local prefix hit). null: ask again next step.
   * `async` true: the request waits (waiting_for_remote_kvs) until the worker side reports it.
   */
  getNumNewMatchedTokens(
    request: ConnectorRequest,
    numComputedTokens: number,
  ): { tokens: number; async: boolean; noPullReason: string | null } | null;
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
  /** A step or a pull ended: the request's numComputedTokens tokens have KV in these blocks. */
  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void;
  /** The request gave its blocks back and will start over. */
  requestPreempted(request: ConnectorRequest): void;
  buildConnectorMeta(): ConnectorMetadata;
  /** True while buildConnectorMeta would return something. */
  hasPendingMeta(): boolean;
  /** When hasPendingMeta() becomes true by itself (a heartbeat), milliseconds; null when it does not. */
  nextMetaDueMs(): number | null;
  updateConnectorOutput(output: ConnectorOutput): void;
  /** delayFree: the blocks stay allocated until the worker side reports the id in finishedSending. */
  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null };
}

/** Worker side of a KV connector. */
export interface KvConnectorWorker {
  /** Called before anything is computed into, or fetched into, blocks that were given back since the last call. */
  startLoadKv(metadata: ConnectorMetadata): void;
  /** Expires what is due, then returns what ended since the last call. */
  getFinished(): ConnectorOutput;
  /**
   * Drops the oldest hold of the given direction that nobody reads, and returns its request id; null when there is
   * none. The drop is then reported in finishedSending like any other end; a later READ is answered 'declined'.
   */
  dropOldestHold(direction: 'prefill' | 'decode'): string | null;
  /** Someone waits to read, as it is computed, a request that has no blocks. */
  streamStarves(): boolean;
  /** Ends a hold at once, whoever it is for. No-op for an unknown id. */
  releaseHold(requestId: string): void;
  /** Who waits for what: for messages to the user, and for the page. */
  holds(): readonly {
    requestId: string;
    blockIds: BlockIds;
    direction: 'prefill' | 'decode';
    deadline: number;
    reading: boolean;
  }[];
  /** Resolves when getFinished() has something new, or a hold's deadline is due. */
  waitForChange(signal: AbortSignal): Promise<void>;
}

export interface KvConnector {
  scheduler: KvConnectorScheduler;
  worker: KvConnectorWorker;
}
