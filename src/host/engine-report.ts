/** What an engine's thread reports: statistics on request, and events. */
import type { HoldUse } from '../connector/hold-meter.ts';
import type { StoreCounters, TransferCounters } from '../connector/types.ts';
import type { BlockStay } from '../engine/block-residency.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import type { BlockFact } from '../engine/inspect/block-facts.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { EngineCoreStats } from '../engine/inspect/inspector.ts';
import type { HeldBlocks } from '../engine/kv-connector.ts';
import type { RequestOutput } from '../engine/types.ts';
import type { WireError } from '../errors.ts';
import type { RawSpan } from '../measure/spans/spans.ts';
import type { TransferResult } from '../transport/types.ts';

export interface EngineStats extends EngineCoreStats {
  engineId: string;
  /** Current bytes: `gpu` for the buffers on its device, `shared` for the slabs shared with its readers. */
  memory: { gpu: number; shared: number };
  /** Pipelines compiled after the warm-up. Must be 0 for a measurement to count. */
  firstUseCompilations: number;
  /**
   * Blocks held after their requests ended, since the last configure(): by P for D, and by D for P. null without a
   * connector.
   */
  holdUse: { prefill: HoldUse; decode: HoldUse } | null;
  /** Pulls and holds since the policy was last built; null for an engine that neither sends nor pulls. */
  transfers: TransferCounters | null;
  /** What it saved to a store and loaded from it since then; null or absent: it has no store. */
  store?: StoreCounters | null;
}

export interface EngineBlocks {
  /** Blocks that the policy uses, the null block included. */
  numBlocks: number;
  /** By id. Blocks that were never used are absent. */
  facts: readonly BlockFact[];
  /** Summed over all readers; zeros before the first handshake. */
  slab: { slotsInUse: number; slots: number; slotBytes: number };
}

export type EngineEvent =
  | { kind: 'outputs'; outputs: RequestOutput[]; atMs: number }
  /** A pull begins. `pairs`: block ids at the holder and here; for a streamed pull they come with its chunks. */
  | {
      kind: 'pull';
      requestId: string;
      remoteEngineId: string;
      pairs: [remote: number, local: number][];
      streamed: boolean;
      bytes: number;
      atMs: number;
    }
  /** A chunk of a streamed pull is in the slab, with these blocks. */
  | { kind: 'chunk'; requestId: string; pairs: [remote: number, local: number][]; atMs: number }
  | { kind: 'transfer'; requestId: string; remoteEngineId: string; result: TransferResult; atMs: number }
  /** The store has read these blocks since they were offered. */
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
  /** The engine's load, sent after steps. */
  | { kind: 'load'; load: EngineLoad }
  /** Changes of the prefix cache since the last such event; or, for listener `to` alone, what it contains. */
  | { kind: 'cache'; events: CacheEvent[]; atMs: number; to: number | null }
  /** How long the blocks evicted in the last step had stayed, for those that are tracked. */
  | { kind: 'stays'; stays: readonly BlockStay[] }
  /** Nothing has moved for half a second. `reason`: what keeps the request from running. */
  | { kind: 'waiting'; requestId: string; reason: string }
  /**
   * The pool is too small for its holds: the first time since the policy was built that a hold was dropped for room.
   */
  | { kind: 'hold_dropped'; requestId: string; direction: HeldBlocks['direction'] }
  /** The device was lost or the loop failed. No more events will come. `stats`: the last; null if there are none. */
  | { kind: 'dead'; error: WireError; stats: EngineStats | null };
