/** A connector as its engine's thread has it: what the engine core needs, and what the thread asks and is told besides. */
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

/** What a connector is made from, besides its own settings. */
export interface ConnectorDeps extends TransferEvents {
  engine: Pick<EngineCoreConfig, 'engineId' | 'host' | 'port' | 'cache' | 'scheduler'>;
  transport: ServingTransport;
  clock: Clock;
  /** How tokens behind blocks are told; left out: by SHA-256. */
  claim?: ClaimPrefix;
  /** Whoever asks it weighs its pulls against other sources: predicted costs alone refuse none. */
  pullsAreWeighed?: boolean;
  /** Milliseconds that having one of the request's blocks spares, about; null or absent: not known. */
  worthOfBlockMs?: (request: ConnectorRequest) => number | null;
  /** Each run of blocks comes from where it lies: what P hands over by another connector nobody seeks, or saves, twice. */
  composed?: boolean;
}

export interface EngineConnector extends KvConnector {
  holds?: ReaderHolds;
  readonly counters: Readonly<TransferCounters>;
  /** null: costs decide nothing. */
  readonly costAware: CostAwarePolicy | null;
  /** Of connectors that save to a store and load from it. */
  readonly store?: StoreUse;
}

export interface StoreUse {
  readonly counters: Readonly<StoreCounters>;
  /** Tokens of the request that the store had when it was asked; null: it was not. */
  storedTokens(requestId: string): number | null;
}

export interface StoreCounters {
  /** Loads that ended well, and what they brought. */
  loads: number;
  loadedTokens: number;
  loadedBytes: number;
  /** Loads that brought nothing: their tokens were computed. */
  failedLoads: number;
  /** Blocks of KV cache groups that were offered, and those that the store read. */
  offeredBlocks: number;
  savedBlocks: number;
  savedBytes: number;
  /** Wall time of loads that ended well, and of offers that were read; those under way at once count each. */
  loadMs: number;
  saveMs: number;
  /** Blocks of ended requests × milliseconds that they stayed until all of them was saved. */
  savingBlockMs: number;
  /** Lookups that the store did not answer in time. */
  unanswered: number;
  /** Bytes that came to this engine by two hops in one turn, where one would have done. */
  twoHopBytes: number;
}

export interface ReaderHolds extends ConnectorHolds {
  /** Blocks kept for readers since the connector was made: 'prefill' by P for D, 'decode' by D for P. */
  use(): { prefill: HoldUse; decode: HoldUse };
  /** Lets every hold of the direction run out now, as its TTL would; returns how many that ended. */
  expireNow(direction: 'prefill' | 'decode'): number;
}

export interface TransferCounters {
  /** Pulls that ended well. */
  transfers: number;
  /** Pulls that ended 'refused', 'failed' or 'dead'. */
  numFailedTransfers: number;
  numFailedNotifications: number;
  /** Holds that nobody read in time, and own pulls not begun because the blocks' time was nearly up. */
  numKvExpired: number;
  /** Unread holds given up for room: of P for D, which computes then, and of D for P. */
  holdsDropped: Record<HeldBlocks['direction'], number>;
  /** Own pulls that brought nothing, or not all, by how they ended. */
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

export interface TransferEvents {
  /** An unread hold was given up for room. */
  onHoldDropped(requestId: string, direction: HeldBlocks['direction']): void;
  /** A pull that has blocks to fetch begins. */
  onPull(info: PullInfo): void;
  /** A streamed pull learns which blocks it reads: the pairs of a chunk, with the holder's ids. */
  onChunk(info: Pick<PullInfo, 'requestId' | 'pairs'>): void;
  /** The store answered what it was asked, or read what it was offered. */
  onStored(info: StoreInfo): void;
  /** Once for every pull that had blocks to fetch, however it ended, before its request is reported. */
  onTransfer(info: TransferInfo): void;
}

export interface PullInfo {
  /** Own request. */
  requestId: string;
  remote: RemoteAddress;
  pairs: readonly BlockPair[];
  /** The pairs' `remote` are places in the holder's sequence, not ids. */
  streamed: boolean;
}

/** Own clock, milliseconds. */
export interface StoreInfo {
  what: 'store lookup' | 'save';
  requestId: string;
  startedMs: number;
  endedMs: number;
  /** Blocks found, or read. */
  blocks: number;
  /** Of a save: what was read from where here. */
  pairs?: readonly BlockPair[];
  /** Blocks that the store brought up for it from below its memory, and how long that took. */
  raised?: number;
  raisedMs?: number;
}

export interface TransferInfo extends Pick<PullInfo, 'requestId' | 'remote'> {
  /** Tokens whose KV was asked for. */
  numTokens: number;
  /** Own clock, milliseconds: the pull began; it was found that its blocks last long enough; it ended. */
  startedMs: number;
  checkedMs: number;
  endedMs: number;
  /** wallMs is endedMs - startedMs. */
  result: TransferResult;
}
