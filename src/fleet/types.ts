/** What a cluster offers to its users: the CLI, the server, the page and the library. A turn's own types are turn-types.ts. */

import type { Arithmetic } from '../config/arithmetic.ts';
import type { CostProfile } from '../config/cost-profile.ts';
import type { KvCacheSpec } from '../config/engine.ts';
import type { PlacementMode } from '../config/fleet-schema.ts';
import type { ConnectorConfig } from '../config/kv-transfer.ts';
import type { Mode } from '../config/modes.ts';
import type { RoutingChoice } from '../config/routing.ts';
import type { Handover, KvLayout } from '../config/run.ts';
import type { EvictionName, Prefetch } from '../config/store.ts';
import type { CacheLookup } from '../engine/inspect/cache-lookup.ts';
import type { AdapterReport } from '../gpu/adapter-report.ts';
import type { EngineBlocks, EngineStats } from '../host/engine-report.ts';
import type { MeasuredKernels, TimingMode } from '../measure/profile.ts';
import type { SpanCounts } from '../measure/span-cost.ts';
import type { Span } from '../measure/spans.ts';
import type { GemmTuning } from '../model/gemm-forms.ts';
import type { EngineClient, EngineRole } from '../router/engine-client.ts';
import type { DrainRule } from '../router/scaling/drain.ts';
import type { ScaleTarget } from '../router/scaling/plan.ts';
import type { GeneratedToken, GenerateRequest, PromptSource } from '../router/turn-types.ts';
import type { StoreBlocks } from '../store/block-news.ts';
import type { StoreFolderStart, StoreServerStart } from '../store/lower-tiers.ts';
import type { StoreStats } from '../store/stats.ts';
import type { FaultKind } from '../transport/faults.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { CacheEventBatch, ClusterNotice } from './notices.ts';
import type { ScaleReport } from './scale-report.ts';
import type { FleetOptions } from './seats.ts';

/** Of the engines of a role. */
export interface EngineOptions {
  /** Absent: 1. */
  count?: number;
  numBlocks: number;
  enablePrefixCaching: boolean;
}

/** A store of KV beside the engines. */
export interface StoreOptions {
  /** Of memory, for blocks. */
  bytes: number;
  eviction: EvictionName;
  /** Absent: wait_complete. */
  prefetch?: Prefetch;
  /** The modelled link lies before it too; absent: it is memory of this machine. */
  remote?: boolean;
  /** Below memory; null or absent: nothing. */
  folder?: Omit<StoreFolderStart, 'namespace'> | null;
  /** Below both; null or absent: nothing. */
  server?: Omit<StoreServerStart, 'namespace'> | null;
}

/** Tampers with what the named engine reads, to prove that wrong KV is noticed. */
export interface InjectedFault {
  engine: 'prefill' | 'decode';
  /** 'short-window': the engine takes its windows for one token shorter than they are. */
  kind: FaultKind | 'short-window';
}

/** Everything a cluster is built from; src/config resolves what a user writes into this. */
export interface ClusterOptions {
  model: string;
  /** Seed of generated weights; of no effect on a checkpoint. */
  weightSeed: number;
  weightDtype: 'f16' | 'f32';
  kvDtype: 'f16' | 'f32';
  /** How a KV block lies on the device. */
  layout: KvLayout;
  mode: Mode;
  blockSize: number;
  /** What each of the model's KV cache groups keeps, for counting; absent: one that keeps everything. */
  kvCacheGroups?: readonly KvCacheSpec[];
  /** Windowed layers keep everything too; absent: no. */
  allFullKv?: boolean;
  prefill: EngineOptions;
  decode: EngineOptions;
  /** Who there is, one by one; absent: `count` of each role, in one roleset. */
  fleet?: FleetOptions;
  /** Absent: pooled. */
  placement?: PlacementMode;
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  maxModelLen: number;
  /** `bidirectional` is set by the mode. */
  connector: ConnectorConfig;
  handover: Handover;
  /** null or absent: there is none. */
  store?: StoreOptions | null;
  /** Absent: round robin. */
  routing?: RoutingChoice;
  /** How old what a policy sees of the engines is, milliseconds; absent: 0, as it is. */
  signalAgeMs?: number;
  /** What becomes of what an engine holds that leaves the fleet; absent: WAIT_30S. */
  drain?: DrainRule;
  link: LinkSpec | null;
  /** Checks every chunk's checksum at both ends. */
  checksum: boolean;
  /** How long an engine that says nothing of a READ is waited for before it is asked anew, milliseconds; absent: 20 s. */
  silenceMs?: number;
  /** Whether to measure forms of the matrix kernel before the start, where that can be done; absent: no. */
  autotune?: 'auto' | 'on' | 'off' | 'again';
  /** What all engines compute matrix products in; auto, where nothing was measured, and absent: f32. */
  arithmetic?: Arithmetic | 'auto';
  /** Whether the driver of engines that only decode has threads of its own; absent: it has. */
  decodeDriverThreads?: boolean;
  /** Those that engines which decode make before they serve; absent: what one row takes, the rest when wanted. */
  decodeKernels?: 'one row' | 'all';
  /** Measured forms of the matrix kernel; null or absent: those that the adapter takes unmeasured. */
  gemm?: GemmTuning | null;
  /** Share of blocks of which it is told how long they stay, 0 to 1; null or absent: of none. */
  kvCacheMetricsSample?: number | null;
  /** Returns each token's logits row. */
  keepLogits: boolean;
  /** Fills new blocks with NaN, so that reading what was never written shows. */
  poison: boolean;
  fault: InjectedFault | null;
}

/** What can change while the engines stay: everything left out stays as it is. */
export interface PolicyChange {
  mode?: Mode;
  /** Tokens; vLLM's kv_recompute_threshold. */
  recomputeThreshold?: number;
  /** Of P. */
  prefixCaching?: boolean;
  /** Blocks of each pool that are used: at most what the engine was started with. */
  prefillBlocks?: number;
  decodeBlocks?: number;
  tokenCheck?: boolean;
  /** Windowed layers keep everything too. */
  allFullKv?: boolean;
  loadFailurePolicy?: ConnectorConfig['loadFailurePolicy'];
  decoderTtlMs?: number;
  drain?: DrainRule;
  link?: LinkSpec | null;
  handover?: Handover;
  routing?: RoutingChoice;
  signalAgeMs?: number;
  /** Which connectors there are, and how they share; needs a store at the start where one has it. */
  connector?: Pick<ConnectorConfig, 'name' | 'offloading' | 'multi'>;
  /** P pulls what D has when that is predicted to be quicker; null: the threshold decides. */
  costProfile?: CostProfile | null;
}

export interface EngineInfo {
  engineId: string;
  role: EngineRole;
  numBlocks: number;
  /** Bytes by purpose. */
  memory: Readonly<Record<string, number>>;
  /** Milliseconds from its thread's beginning to its readiness; absent: not measured. The next two, side by side, are parts of it. */
  startMs?: number;
  loadMs: number;
  compileMs: number;
  pipelines: number;
  /** Whether its driver computes with threads of its own, as drivers do unless told otherwise. */
  driverThreads: boolean;
}

export interface ClusterInfo {
  adapter: AdapterReport;
  /** Measured forms of the matrix kernel; null or absent: those that the adapter takes unmeasured. */
  gemm?: GemmTuning | null;
  model: {
    name: string;
    parameters: number;
    vocabSize: number;
    maxModelLen: number;
    kvBytesPerToken: number;
    blockBytes: number;
    eosTokenIds: readonly number[];
  };
  engines: readonly EngineInfo[];
  /** Milliseconds from createCluster to ready. */
  startMs: number;
  link: LinkSpec | null;
}

/** What to look for in the engines' caches. */
export interface CacheQuery extends Omit<PromptSource, 'conversationId'> {
  /** A known conversation: its history is looked up as the ids that the engines saw. */
  conversationId?: string | null;
}

export interface EngineLookup extends CacheLookup {
  engineId: string;
  role: EngineRole;
}

export interface CacheAnswers {
  promptTokens: number;
  engines: readonly EngineLookup[];
  /** Ids of engines that serve and did not answer: their threads are stuck. */
  unanswered: readonly string[];
}

export interface EngineSnapshot {
  engineId: string;
  role: EngineRole;
  blocks: EngineBlocks;
  stats: EngineStats;
}

export interface Cluster {
  readonly info: ClusterInfo;
  /** In the order of the fleet, to be asked one by one: for measuring engines, not turns. */
  readonly engines: readonly EngineClient[];
  readonly mode: Mode;
  /** What is in force now. */
  readonly settings: Readonly<ClusterOptions>;
  /** Tokens of a text in this model's vocabulary; no special tokens are added. */
  encode(text: string): number[];
  decode(tokenIds: readonly number[]): string;
  /**
   * Drains, releases every hold, resets the caches, asserts that only the null block is in use, and goes on as told.
   * Throws RequestError while turns are under way, ConfigError for more blocks than there are.
   */
  configure(change: PolicyChange): Promise<void>;
  /** configure({ mode }). */
  setMode(mode: Mode): Promise<void>;
  /** Throws RequestError for a request that cannot be served, EngineDeadError when an engine ended. */
  generate(request: GenerateRequest): AsyncIterable<GeneratedToken>;
  /**
   * As if the conversation's last turn had not been, so that the same turn can be served again: D offers what it held
   * before, and neither engine finds more of the prompt in its cache than it did. `prefillKeeps` says how many of its
   * tokens P still finds, in place of that. Throws RequestError when no turn can be taken back (one at a time can).
   */
  rewind(conversationId: string, prefillKeeps?: number): Promise<void>;
  /** Releases what is held for the conversation and forgets it. */
  endConversation(conversationId: string): Promise<void>;
  stats(): Promise<readonly EngineStats[]>;
  /** null: there is no store, or it ended. */
  storeStats(): Promise<StoreStats | null>;
  /** Which block lies where in it: what has changed since the look of that revision; 0: all. null as above. */
  storeBlocks(since: number): Promise<StoreBlocks | null>;
  /**
   * How much of a prompt each living engine has, in its prefix cache and in blocks that it holds. Schedules and runs
   * nothing. Each is waited for so long, without a bound as long as it takes. Throws RequestError when the query names no
   * prompt.
   */
  queryCache(query: CacheQuery, patienceMs?: number | null): Promise<CacheAnswers>;
  /** Told what changes in the engines' prefix caches, step by step. Costs nothing while nobody listens. */
  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void;
  /** The same of the store's tiers, each event with its medium; never told where there is no store. */
  onStoreEvent(listener: (batch: CacheEventBatch) => void): () => void;
  /** What is in each block of each living engine, now. */
  snapshot(): Promise<readonly EngineSnapshot[]>;
  /**
   * Told of every turn as it is accepted, of all that the engines say, of their ends and beginnings, and of what is wrong
   * with the store: also of what that said before anyone listened. What any of a cluster's listeners throws is told on the
   * console, and goes no further.
   */
  onNotice(listener: (notice: ClusterNotice) => void): () => void;
  /** Throws InternalError when an engine's bookkeeping does not add up. */
  checkIntegrity(): Promise<void>;
  /** Builds engines that ended anew, with empty caches; returns how many. After close() none, whoever asks. */
  revive(): Promise<number>;
  /**
   * So many engines from now on, while turns go on: a new one gets turns once it is warm; a leaving one gets no more, ends
   * those it has, and what it holds goes the way of `drain` (left out: as the cluster is set). Resolves when all that is
   * done. Throws RequestError for what cannot be and while another change is under way, AdapterError for more than fits.
   */
  scale(target: ScaleTarget, drain?: DrainRule): Promise<ScaleReport>;
  /**
   * Times submits (for the 'kernels' spans of a timeline) or single kernels (which slows them) by the devices' own clocks,
   * until null stops it. False: an adapter has no timestamp-query, and nothing is timed there.
   */
  setTiming(mode: TimingMode | null): Promise<boolean>;
  /** By engine, since setTiming; measures each adapter's ceilings too, so no turn may be under way. Takes seconds. */
  takeKernelTimes(): Promise<readonly MeasuredKernels[]>;
  /** Spans recorded since the start, for what recording them costs. */
  spanCounts(): SpanCounts;
  onSpan(listener: (span: Span) => void): () => void;
  /**
   * Told when a request has waited for half a second while its engine stood still: for what, from whom, until when; and
   * once when an engine gave up for room what it held for one that ended.
   */
  onWaiting(listener: (requestId: string, reason: string) => void): () => void;
  close(): Promise<void>;
}
