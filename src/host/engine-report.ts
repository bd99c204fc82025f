/** What an engine's thread tells: when asked, and by itself. */
import type { HoldUse } from '../connector/hold-meter.ts';
import type { LearnedCosts } from '../connector/policy/cost-aware.ts';
import type { StoreCounters, TransferCounters } from '../connector/types.ts';
import type { BlockStay } from '../engine/block-residency.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import type { BlockFact } from '../engine/inspect/block-facts.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { EngineCoreStats } from '../engine/inspect/inspector.ts';
import type { HeldBlocks } from '../engine/kv-connector.ts';
import type { RequestOutput } from '../engine/types.ts';
import type { WireError } from '../errors.ts';
import type { RawSpan } from '../measure/spans.ts';
import type { TransferResult } from '../transport/types.ts';

export interface EngineStats extends EngineCoreStats {
  engineId: string;
  /** Bytes now: of the buffers on its device, and of the slabs that it shares with its readers. */
  memory: { gpu: number; shared: number };
  /** Pipelines compiled after the warm-up: must be 0 for a measurement to count. */
  firstUseCompilations: number;
  /** What the cost-aware policy believes now; absent when the threshold decides. */
  costs?: LearnedCosts;
  /** Blocks kept after their requests ended, since the last configure(): by P for D, and by D for P. Null without a connector. */
  holdUse: { prefill: HoldUse; decode: HoldUse } | null;
  /** Of pulls and holds since the policy was last built; null for an engine that neither sends nor pulls. */
  transfers: TransferCounters | null;
  /** Of what it saved to a store and loaded from it, since then; null or absent: it has none. */
  store?: StoreCounters | null;
}

export interface EngineBlocks {
  /** In use by the policy, the null block included. */
  numBlocks: number;
  /** By id; blocks that were never used are missing. */
  facts: readonly BlockFact[];
  /** Over all readers; zeros before the first handshake. */
  slab: { slotsInUse: number; slots: number; slotBytes: number };
}

export type EngineEvent =
  | { kind: 'outputs'; outputs: RequestOutput[]; atMs: number }
  /** A pull begins: block ids at the holder and here; of a streamed one they come with its chunks. */
  | {
      kind: 'pull';
      requestId: string;
      remoteEngineId: string;
      pairs: [remote: number, local: number][];
      streamed: boolean;
      bytes: number;
      atMs: number;
    }
  /** Of a streamed pull: so many blocks are in the slab. */
  | { kind: 'chunk'; requestId: string; pairs: [remote: number, local: number][]; atMs: number }
  | { kind: 'transfer'; requestId: string; remoteEngineId: string; result: TransferResult; atMs: number }
  /** The store has read these, since it was offered them. */
  | {
      kind: 'saved';
      requestId: string;
      remoteEngineId: string;
      pairs: [local: number, remote: number][];
      bytes: number;
      startedMs: number;
      atMs: number;
    }
  | { kind: 'spans'; spans: RawSpan[] }
  /** How busy the engine is, told after steps. */
  | { kind: 'load'; load: EngineLoad }
  /** What changed in the prefix cache since the last one. */
  | { kind: 'cache'; events: CacheEvent[]; atMs: number }
  /** How long blocks stayed that were evicted in the last step; of those that are followed. */
  | { kind: 'stays'; stays: readonly BlockStay[] }
  /** Nothing has moved for half a second, and this keeps the request from running. */
  | { kind: 'waiting'; requestId: string; reason: string }
  /** The pool is too small for what is held: the first time that a hold was given up for room since the policy was built. */
  | { kind: 'hold_dropped'; requestId: string; direction: HeldBlocks['direction'] }
  /** The device was lost or the loop failed; nothing more will come. */
  | { kind: 'dead'; error: WireError };
