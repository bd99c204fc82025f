/**
 * The interface of a cluster for its users: the CLI, the server, the page and the library. The types of a turn are in
 * src/router/turn-types.ts.
 */

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
import type { MeasuredKernels, TimingMode } from '../measure/spans/profile.ts';
import type { Span } from '../measure/spans/spans.ts';
import type { SpanCounts } from '../measure/summaries/span-cost.ts';
import type { GemmTuning } from '../model/kernels/gemm-forms.ts';
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

/** Settings of one role's engines. */
export interface EngineOptions {
  /** Absent: 1. */
  count?: number;
  numBlocks: number;
  enablePrefixCaching: boolean;
}

/** A KV store in addition to the engines. */
export interface StoreOptions {
  /** Memory for blocks, in bytes. */
  bytes: number;
  eviction: EvictionName;
  /** Absent: wait_complete. */
  prefetch?: Prefetch;
  /** The modelled link also applies to it; absent: it is this machine's memory. */
  remote?: boolean;
  /** Tier below memory; null or absent: none. */
  folder?: Omit<StoreFolderStart, 'namespace'> | null;
  /** Tier below memory and folder; null or absent: none. */
  server?: Omit<StoreServerStart, 'namespace'> | null;
}

/** Tampers with what the named engine reads, to prove that wrong KV is noticed. */
export interface InjectedFault {
  engine: 'prefill' | 'decode';
  /** 'short-window': the engine uses windows that are one token too short. */
  kind: FaultKind | 'short-window';
}

/** Everything a cluster is built from; src/config resolves a user's input into this. */
export interface ClusterOptions {
  model: string;
  /** Seed of generated weights; no effect on a checkpoint. */
  weightSeed: number;
  weightDtype: 'f16' | 'f32';
  kvDtype: 'f16' | 'f32';
  /** Layout of a KV block on the device. */
  layout: KvLayout;
  mode: Mode;
  blockSize: number;
  /** What each of the model's KV cache groups keeps, for counting. Absent: one group that keeps everything. */
  kvCacheGroups?: readonly KvCacheSpec[];
  /** Windowed layers keep everything too. Absent: false. */
  allFullKv?: boolean;
  prefill: EngineOptions;
  decode: EngineOptions;
  /** The seats of the fleet. Absent: `count` engines of each role, in one roleset. */
  fleet?: FleetOptions;
  /** Absent: pooled. */
  placement?: PlacementMode;
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  maxModelLen: number;
  /** `bidirectional` is set by the mode. */
  connector: ConnectorConfig;
  handover: Handover;
  /** null or absent: no store. */
  store?: StoreOptions | null;
  /** Absent: round-robin. */
  routing?: RoutingChoice;
  /** Minimum age of the engines' reports that a policy sees, in milliseconds. Absent: 0, no delay. */
  signalAgeMs?: number;
  /** What happens to the holds of an engine that leaves the fleet. Absent: WAIT_30S. */
  drain?: DrainRule;
  link: LinkSpec | null;
  /** Checks every chunk's checksum at both ends. */
  checksum: boolean;
  /** How long a holder may be silent about a READ before it is asked again, in milliseconds. Absent: 20 s. */
  silenceMs?: number;
  /** Whether to measure variants of the matrix kernel before the start, where possible. Absent: off. */
  autotune?: 'auto' | 'on' | 'off' | 'again';
  /** Arithmetic of all engines' matrix products. Absent: f32, which is also used for auto if nothing was measured. */
  arithmetic?: Arithmetic | 'auto';
  /** Whether the driver of decode-only engines has threads of its own. Absent: true. */
  decodeDriverThreads?: boolean;
  /** Kernels that decode engines compile before they serve. Absent: those for one row; the rest when needed. */
  decodeKernels?: 'one row' | 'all';
  /** Measured variants of the matrix kernel; null or absent: those that the adapter uses without measurement. */
  gemm?: GemmTuning | null;
  /** Share of blocks whose residency is reported, 0 to 1; null or absent: none. */
  kvCacheMetricsSample?: number | null;
  /** Returns each token's row of logits. */
  keepLogits: boolean;
  /** Fills new blocks with NaN, so that reading unwritten memory becomes visible. */
  poison: boolean;
  fault: InjectedFault | null;
}

/** Settings that can change while the engines stay. Absent fields keep their value. */
export interface PolicyChange {
  mode?: Mode;
  /** Tokens; vLLM's kv_recompute_threshold. */
  recomputeThreshold?: number;
  /** P's prefix caching. */
  prefixCaching?: boolean;
  /** Blocks of each pool that are used: at most as many as the engines were started with. */
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
  /** The connectors and how they are combined. Those with a store need one at the start. */
  connector?: Pick<ConnectorConfig, 'name' | 'offloading' | 'multi'>;
  /** Costs by which P pulls what D has if that is predicted to be faster; null: the threshold decides. */
  costProfile?: CostProfile | null;
}

export interface EngineInfo {
  engineId: string;
  role: EngineRole;
  numBlocks: number;
  /** Bytes by purpose. */
  memory: Readonly<Record<string, number>>;
  /**
   * Milliseconds from its thread's start to readiness; absent: not measured. loadMs and compileMs run in parallel and
   * are parts of it.
   */
  startMs?: number;
  loadMs: number;
  compileMs: number;
  pipelines: number;
  /** Whether its driver computes with threads of its own, which is the drivers' default. */
  driverThreads: boolean;
}

export interface ClusterInfo {
  adapter: AdapterReport;
  /** Measured variants of the matrix kernel; null or absent: those that the adapter uses without measurement. */
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

/** What to look up in the engines' caches. */
export interface CacheQuery extends Omit<PromptSource, 'conversationId'> {
  /** A known conversation: its history is looked up as the token ids that the engines saw. */
  conversationId?: string | null;
}

export interface EngineLookup extends CacheLookup {
  engineId: string;
  role: EngineRole;
  /** Whether it serves whole turns. */
  combined: boolean;
}

export interface CacheAnswers {
  promptTokens: number;
  engines: readonly EngineLookup[];
  /** Ids of serving engines that did not answer in time; their threads may be stuck. */
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
  /** In the order of the fleet. For measuring single engines; turns go through generate(). */
  readonly engines: readonly EngineClient[];
  readonly mode: Mode;
  /** The active settings. */
  readonly settings: Readonly<ClusterOptions>;
  /** Token ids of a text in this model's vocabulary, without special tokens. */
  encode(text: string): number[];
  /** The text of token ids. */
  decode(tokenIds: readonly number[]): string;
  /**
   * Changes settings between turns: releases every hold, resets the caches, asserts that only the null block is in
   * use, and continues with the new settings. Throws RequestError while turns are under way or the fleet is being
   * scaled, and ConfigError for an unknown key, an invalid value or more blocks than there are.
   */
  configure(change: PolicyChange): Promise<void>;
  /** configure({ mode }). */
  setMode(mode: Mode): Promise<void>;
  /**
   * Serves a turn. Throws RequestError for a request that cannot be served, EngineDeadError if an engine ended,
   * TransferError or RefusedError if its KV could not be had.
   */
  generate(request: GenerateRequest): AsyncIterable<GeneratedToken>;
  /**
   * Undoes the conversation's last turn, so that the same turn can be served again: D offers what it held before, and
   * neither engine finds more of the prompt in its cache than it did then. `prefillKeeps`: how many of its tokens P
   * still finds instead. Throws RequestError if there is no turn to undo; only the last one can be.
   */
  rewind(conversationId: string, prefillKeeps?: number): Promise<void>;
  /** Releases what is held for the conversation and forgets it. */
  endConversation(conversationId: string): Promise<void>;
  /** Statistics of each engine that serves. */
  stats(): Promise<readonly EngineStats[]>;
  /** null: there is no store, or it has ended. */
  storeStats(): Promise<StoreStats | null>;
  /** Which block is where in the store: the changes since revision `since`; 0: everything. null as for storeStats(). */
  storeBlocks(since: number): Promise<StoreBlocks | null>;
  /**
   * How much of a prompt each living engine has in its prefix cache and in blocks that it holds. Schedules and runs
   * nothing. `patienceMs`: how long to wait for each engine; null or absent: without limit. Throws RequestError if
   * the query names no prompt.
   */
  queryCache(query: CacheQuery, patienceMs?: number | null): Promise<CacheAnswers>;
  /**
   * Calls the listener with what the engines' prefix caches contain, if anything, and then with their changes, step by
   * step. Costs nothing while there is no listener.
   */
  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void;
  /** The same for the store's tiers, first with what is in them; each event names its medium. Never called without a store. */
  onStoreEvent(listener: (batch: CacheEventBatch) => void): () => void;
  /** The contents of each block of each living engine, now. */
  snapshot(): Promise<readonly EngineSnapshot[]>;
  /**
   * Calls the listener with every accepted turn, all events of the engines, their starts and ends, and problems of
   * the store, including those before there was a listener. Errors thrown by any of a cluster's listeners are only
   * printed to the console.
   */
  onNotice(listener: (notice: ClusterNotice) => void): () => void;
  /** Throws InternalError if an engine's accounting is inconsistent. */
  checkIntegrity(): Promise<void>;
  /** Replaces engines that ended, with empty caches; returns how many. After close() none, for any caller. */
  revive(): Promise<number>;
  /**
   * Changes the number of engines while turns continue. A new engine gets turns once it is warm. A leaving one gets
   * no more turns and finishes those it has; `drain` decides what happens to its holds (default: the cluster's
   * setting). Resolves when all of that is done. Throws RequestError for an impossible target, ConflictError while
   * another change is under way, AdapterError if memory is too small.
   */
  scale(target: ScaleTarget, drain?: DrainRule): Promise<ScaleReport>;
  /**
   * Times submits (for the 'kernels' spans of a timeline) or single kernels (which slows them down) by the devices'
   * own clocks, until it is set to null. Resolves to false if an adapter has no timestamp-query; nothing is timed
   * there.
   */
  setTiming(mode: TimingMode | null): Promise<boolean>;
  /**
   * Kernel times by engine since setTiming. Also measures each adapter's ceilings, so no turn may be under way. Takes
   * seconds.
   */
  takeKernelTimes(): Promise<readonly MeasuredKernels[]>;
  /** Number of spans recorded since the start, to judge the cost of recording. */
  spanCounts(): SpanCounts;
  /**
   * Calls the listener with every span recorded. Returns a function that removes the listener, as all on... methods
   * do.
   */
  onSpan(listener: (span: Span) => void): () => void;
  /**
   * Calls the listener when a request has waited for half a second while its engine stood still, with what it waits
   * for, from which engine and until when; and once when an engine dropped, for lack of room, what it held for a
   * request that ended.
   */
  onWaiting(listener: (requestId: string, reason: string) => void): () => void;
  /** Ends all engines and the store. Then generate() throws EngineDeadError; configure() and scale(), RequestError. */
  close(): Promise<void>;
}
