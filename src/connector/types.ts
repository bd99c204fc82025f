/** A connector as seen by its engine's thread: the engine core's interface, plus counters, events and settings. */
import type { EngineCoreConfig } from '../config/engine.ts';
import type {
  ConnectorHolds,
  ConnectorRequest,
  HeldBlocks,
  KvConnector,
  TransferOutcome,
} from '../engine/kv-connector.ts';
import type { Clock } from '../engine/types.ts';
import type { ClaimPrefix } from '../transport/prefix-claim.ts';
import type { BlockPair, RemoteAddress, ServingTransport, TransferResult } from '../transport/types.ts';
import type { HoldUse } from './hold-meter.ts';
import type { CostAwarePolicy } from './policy/cost-aware.ts';

/** What a connector is built from, in addition to its own settings. */
export interface ConnectorDeps extends TransferEvents {
  engine: Pick<EngineCoreConfig, 'engineId' | 'host' | 'port' | 'cache' | 'scheduler'>;
  transport: ServingTransport;
  clock: Clock;
  /** Computes the claims that prove which tokens a reader expects. Default: SHA-256. */
  claim?: ClaimPrefix;
  /** The caller weighs pulls against other sources, so predicted costs alone do not refuse a pull. */
  pullsAreWeighed?: boolean;
  /** Estimated time saved by having one of the request's blocks, ms; null or absent if not known. */
  worthOfBlockMs?: (request: ConnectorRequest) => number | null;
  /** Whether another connector keeps the request's blocks too, so that the end of a hold would free none of them. */
  keptElsewhere?: ((requestId: string) => boolean) | undefined;
  /** Part of a composed MultiConnector: blocks that P hands over through another connector are not looked up or saved again. */
  composed?: boolean;
}

export interface EngineConnector extends KvConnector {
  holds?: ReaderHolds;
  readonly counters: Readonly<TransferCounters>;
  /** null if costs are not used for decisions. */
  readonly costAware: CostAwarePolicy | null;
  /** Only for connectors that save to a store and load from it. */
  readonly store?: StoreUse;
}

export interface StoreUse {
  readonly counters: Readonly<StoreCounters>;
  /** Tokens of the request that the store had at the lookup; null if there was none. */
  storedTokens(requestId: string): number | null;
}

export interface StoreCounters {
  /** Successful loads, and what they brought. */
  loads: number;
  loadedTokens: number;
  loadedBytes: number;
  /** Loads that brought nothing, so that their tokens were computed. */
  failedLoads: number;
  /** Blocks offered to the store, over all KV cache groups, and blocks that it read. */
  offeredBlocks: number;
  savedBlocks: number;
  savedBytes: number;
  /** Total wall time of successful loads, and of offers that were read, ms. Concurrent ones count separately. */
  loadMs: number;
  saveMs: number;
  /** Block-milliseconds for which ended requests' blocks were kept until they were saved. */
  savingBlockMs: number;
  /** Lookups that the store did not answer in time. */
  unanswered: number;
  /** Bytes that came to this engine by two hops in one turn although one would have sufficed. */
  twoHopBytes: number;
}

export interface ReaderHolds extends ConnectorHolds {
  /** Blocks held for readers since the connector was created: 'prefill' by P for D, 'decode' by D for P. */
  use(): { prefill: HoldUse; decode: HoldUse };
  /** Expires every hold of the direction now, as its TTL would. Returns how many ended. */
  expireNow(direction: 'prefill' | 'decode'): number;
}

export interface TransferCounters {
  /** Successful pulls. */
  transfers: number;
  /** Pulls that ended 'refused', 'failed' or 'dead'. */
  numFailedTransfers: number;
  numFailedNotifications: number;
  /** Holds that expired unread, and own pulls not started because the remote hold was about to expire. */
  numKvExpired: number;
  /** Unread holds dropped to free blocks: 'prefill' by P (D then computes), 'decode' by D. */
  holdsDropped: Record<HeldBlocks['direction'], number>;
  /** Own pulls that brought nothing, or not everything, by outcome. */
  pullsNotDone: Record<Exclude<TransferOutcome, 'done'>, number>;
}

export const noTransfers = (): TransferCounters => ({
  transfers: 0,
  numFailedTransfers: 0,
  numFailedNotifications: 0,
  numKvExpired: 0,
  holdsDropped: { prefill: 0, decode: 0 },
  pullsNotDone: { declined: 0, expired: 0, refused: 0, failed: 0, dead: 0 },
});

export function countPull(counters: TransferCounters, outcome: TransferOutcome): void {
  if (outcome === 'done') {
    counters.transfers++;
    return;
  }
  counters.pullsNotDone[outcome]++;
  if (outcome !== 'declined' && outcome !== 'expired') counters.numFailedTransfers++;
}

export interface TransferEvents {
  /** An unread hold was dropped to free blocks. */
  onHoldDropped(requestId: string, direction: HeldBlocks['direction']): void;
  /** A pull with blocks to fetch starts. */
  onPull(info: PullInfo): void;
  /** A streamed pull learned which blocks a chunk contains: its pairs, now with the holder's block ids. */
  onChunk(info: Pick<PullInfo, 'requestId' | 'pairs'>): void;
  /** The store answered a lookup, or read what it was offered. */
  onStored(info: StoreInfo): void;
  /** Called once for every pull that had blocks to fetch, with any outcome, before its request is reported. */
  onTransfer(info: TransferInfo): void;
}

export interface PullInfo {
  /** The request at this engine. */
  requestId: string;
  remote: RemoteAddress;
  pairs: readonly BlockPair[];
  /** The pairs' `remote` values are block indexes in the holder's sequence, not block ids. */
  streamed: boolean;
}

/** Times are ms on the engine's clock. */
export interface StoreInfo {
  what: 'store lookup' | 'save';
  requestId: string;
  startedMs: number;
  endedMs: number;
  /** Blocks found (lookup) or read (save). */
  blocks: number;
  /** For a save: bytes of these blocks. */
  bytes?: number;
  /** For a save: which local blocks were read. */
  pairs?: readonly BlockPair[];
  /** For a lookup: block loads from lower tiers that the store started, their bytes, and how long it waited, ms. */
  raised?: number;
  raisedBytes?: number;
  raisedMs?: number;
}

export interface TransferInfo extends Pick<PullInfo, 'requestId' | 'remote'> {
  /** Tokens whose KV was asked for. */
  numTokens: number;
  /** Ms on the engine's clock: the pull started; the holder's deadline was found sufficient; the pull ended. */
  startedMs: number;
  checkedMs: number;
  endedMs: number;
  /** wallMs is endedMs - startedMs. */
  result: TransferResult;
}
