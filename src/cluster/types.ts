/** What a cluster offers to its users: the CLI, the server, the page and the library. */
import type { CostProfile } from '../config/cost-profile.ts';
import type { ConnectorConfig, PullPolicyName } from '../config/kv-transfer.ts';
import type { Handover, KvLayout } from '../config/run.ts';
import type { LearnedCosts } from '../connector/cost-aware.ts';
import type { HoldUse } from '../connector/hold-meter.ts';
import type { WorkerSideCounters } from '../connector/worker-side.ts';
import type { CacheLookup } from '../engine/cache-lookup.ts';
import type { EngineCoreStats } from '../engine/engine-state.ts';
import type { FinishReason, PromptAccount, SamplingParams } from '../engine/types.ts';
import type { AdapterReport } from '../gpu/device.ts';
import type { MeasuredKernels } from '../measure/profile.ts';
import type { SpanCounts } from '../measure/span-cost.ts';
import type { Span } from '../measure/spans.ts';
import type { GemmTuning } from '../model/gemm-forms.ts';
import type { TimingMode } from '../model/kernel-timing.ts';
import type { FaultKind } from '../transport/faults.ts';
import type { LinkSpec } from '../transport/link.ts';
import type { TransferStages } from '../transport/types.ts';
import type { CacheEventBatch } from './cache-watch.ts';
import type { ClusterNotice } from './engine-watch.ts';
import type { EngineBlocks } from './messages.ts';

/**
 * monolithic: one engine does both. unidirectional: P prefills, D pulls and decodes; P recomputes what D generated.
 * bidirectional: P pulls back what D generated. decode-local: from the second turn on D prefills by itself, beside what it
 * decodes; the alternative to pulling back, to be compared with.
 */
export type Mode = 'monolithic' | 'unidirectional' | 'bidirectional' | 'decode-local';

/** Those that a run takes unless it is told otherwise. */
export const MODES: readonly Mode[] = ['monolithic', 'unidirectional', 'bidirectional'];

export interface EngineOptions {
  numBlocks: number;
  enablePrefixCaching: boolean;
}

/** Tampers with what the named engine reads, to prove that wrong KV is noticed. */
export interface InjectedFault {
  engine: 'prefill' | 'decode';
  kind: FaultKind;
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
  prefill: EngineOptions;
  decode: EngineOptions;
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  maxModelLen: number;
  /** `bidirectional` is set by the mode. */
  connector: ConnectorConfig;
  handover: Handover;
  link: LinkSpec | null;
  /** Checks every chunk's checksum at both ends. */
  checksum: boolean;
  /** Whether to measure forms of the matrix kernel before the start, where that can be done; absent: no. */
  autotune?: 'auto' | 'on' | 'off' | 'again';
  /** Measured forms of the matrix kernel; null or absent: those that the adapter takes unmeasured. */
  gemm?: GemmTuning | null;
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
  decoderTtlMs?: number;
  link?: LinkSpec | null;
  handover?: Handover;
  /** P pulls what D has when that is predicted to be quicker; null: the threshold decides. */
  costProfile?: CostProfile | null;
}

export interface EngineInfo {
  engineId: string;
  role: 'prefill' | 'decode';
  numBlocks: number;
  /** Bytes by purpose. */
  memory: Readonly<Record<string, number>>;
  /** Milliseconds. */
  loadMs: number;
  compileMs: number;
  pipelines: number;
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

export interface Message {
  role: string;
  content: string;
}

export interface GenerateRequest {
  /** Turns with the same id are one conversation; null is a conversation of its own. */
  conversationId: string | null;
  /** The whole prompt, history included. Give this or messages. */
  promptTokenIds?: readonly number[];
  /**
   * Whole conversation so far. What was generated before is kept as token ids, so an unchanged history is not
   * tokenised again.
   */
  messages?: readonly Message[];
  /** The whole prompt as text, without any chat template. */
  promptText?: string;
  sampling?: Partial<SamplingParams>;
  /** How P decides on pulling what D has, for this request only; left out: as the cluster is set. */
  pull?: PullPolicyName;
  /** Strings that end the answer, and are not part of it unless includeStop. */
  stop?: readonly string[];
  includeStop?: boolean;
  /** Requests with another salt never share blocks. */
  cacheSalt?: string | null;
  /** Without an id: goes on with the known conversation whose last prompt and answer this prompt begins with. */
  findConversation?: boolean;
  /** Serves the turn another way when an engine or a transfer fails, with the same tokens. Left out: such errors are thrown. */
  failover?: boolean;
  /** Told the prompt before any engine is asked; what it throws ends the turn. */
  onPrompt?: (promptTokenIds: readonly number[]) => void;
  /** Ends the turn at its engines at once. */
  signal?: AbortSignal;
}

export interface TransferSummary {
  bytes: number;
  blocks: number;
  ms: number;
  /** Of a streamed hand-over: the part of ms in which its bytes were under way. */
  movingMs?: number;
  /** Gigabytes a second, 10^9: of movingMs where there is one. */
  gbps: number;
  descriptors: number;
  /** A modelled link slowed it down. */
  throttled: boolean;
  stages: TransferStages;
}

export interface TurnResult {
  conversationId: string;
  /** From 1 on. */
  turn: number;
  promptTokenIds: readonly number[];
  outputTokenIds: readonly number[];
  /** Without the end token. */
  text: string;
  finishReason: FinishReason;
  /** The stop string or stop token that ended it; null or left out for an end token or a length. */
  stopReason?: string | number | null;
  /** Of the engine that prefilled: P, or the only one. */
  prompt: PromptAccount;
  /** Router's acceptance to the first token of D (of the only engine when monolithic), milliseconds. */
  ttftMs: number;
  /** Mean milliseconds between tokens after the first; null when there is only one. */
  tpotMs: number | null;
  latencyMs: number;
  /**
   * Where the time to the first token went: milliseconds in which each stage (src/measure/stages.ts) was what the token
   * waited for. They add up to ttftMs.
   */
  stagesMs: Readonly<Record<string, number>>;
  /** What each stage did while another one was waited for. */
  overlappedMs: Readonly<Record<string, number>>;
  transfer: { pToD: TransferSummary | null; dToP: TransferSummary | null };
}

export interface GeneratedToken {
  tokenId: number;
  /** Text that this token completed; empty inside a multi-byte character, and for the token that ends the turn. */
  text: string;
  /** From 0 on. */
  index: number;
  /** When the engine had it, on the shared clock, milliseconds. */
  atMs: number;
  logitsDigest: string;
  logits: Float32Array | null;
  /** With the last token. */
  final: TurnResult | null;
}

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
  transfers: WorkerSideCounters | null;
}

/** What to look for in the engines' caches. */
export interface CacheQuery extends Omit<PromptSource, 'conversationId'> {
  /** A known conversation: its history is looked up as the ids that the engines saw. */
  conversationId?: string | null;
}

/** What of a request decides its prompt. */
export type PromptSource = Pick<
  GenerateRequest,
  'conversationId' | 'findConversation' | 'messages' | 'promptText' | 'promptTokenIds' | 'cacheSalt'
>;

export interface EngineLookup extends CacheLookup {
  engineId: string;
  role: 'prefill' | 'decode';
}

export interface EngineSnapshot {
  engineId: string;
  role: 'prefill' | 'decode';
  blocks: EngineBlocks;
  stats: EngineStats;
}

export interface Cluster {
  readonly info: ClusterInfo;
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
  /**
   * How much of a prompt each living engine has, in its prefix cache and in blocks that it holds. Schedules and runs
   * nothing. Throws RequestError when the query names no prompt.
   */
  queryCache(query: CacheQuery): Promise<{ promptTokens: number; engines: readonly EngineLookup[] }>;
  /** Told what changes in the engines' prefix caches, step by step. Costs nothing while nobody listens. */
  onCacheEvent(listener: (batch: CacheEventBatch) => void): () => void;
  /** What is in each block of each living engine, now. */
  snapshot(): Promise<readonly EngineSnapshot[]>;
  /** Told of every turn as it is accepted, of all that the engines say, and of their ends and beginnings. */
  onNotice(listener: (notice: ClusterNotice) => void): () => void;
  /** Throws InternalError when an engine's bookkeeping does not add up. */
  checkIntegrity(): Promise<void>;
  /** Builds engines that ended anew, with empty caches; returns how many. */
  revive(): Promise<number>;
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
  /** Told when a request has waited for half a second while its engine stood still: for what, from whom, until when. */
  onWaiting(listener: (requestId: string, reason: string) => void): () => void;
  close(): Promise<void>;
}
