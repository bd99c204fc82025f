/**
 * The types that the engine's policy (scheduler, KV cache manager) exchanges with its surroundings: requests in, batches
 * out, the executor that runs them, and the clock. The connector interface is in kv-connector.ts. No type here refers to
 * a GPU, a thread or bytes.
 */

import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { ErrorCode } from '../errors.ts';

export type BlockId = number;

/** Block ids by KV cache group: one inner list per group, as in vLLM. Id 0 is the null block. */
export type BlockIds = readonly (readonly BlockId[])[];

export const NULL_BLOCK: BlockId = 0;

/** Milliseconds on a clock that all threads share (performance.timeOrigin + performance.now()). */
export interface Clock {
  now(): number;
  /** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface SamplingParams {
  /** Maximum number of tokens to generate, >= 1. */
  maxTokens: number;
  /** End tokens are not sampled before this many tokens exist (vLLM's min_tokens). */
  minTokens: number;
  /** 0 is greedy. */
  temperature: number;
  /** 0 considers every token. */
  topK: number;
  /** 1 considers every token. */
  topP: number;
  /** The random number of each draw depends only on the seed and the output index. */
  seed: number;
  stopTokenIds: readonly number[];
  ignoreEos: boolean;
  /** Only these tokens may be drawn. Default (or null): every token. */
  allowedTokenIds?: readonly number[] | null;
  /** Sequences that the output must not contain: a token that would complete one is not drawn (vLLM's bad_words). */
  badWordsTokenIds?: readonly (readonly number[])[];
  /**
   * The first output tokens, generated regardless of the logits. Used by traces and simulations, whose later prompts
   * contain them. Logits and digests are still the computed ones. Cannot be set over HTTP.
   */
  forcedTokenIds?: TokenIds;
  /** Return the logits with each sampled token. Default: only if the engine keeps all logits. */
  keepLogits?: boolean;
}

export interface EngineRequest {
  requestId: string;
  promptTokenIds: TokenIds;
  sampling: SamplingParams;
  kvTransferParams: KvTransferParams | null;
  /** Part of the first block's hash: requests with different salts never share blocks. */
  cacheSalt: string | null;
  /** When the caller accepted the request, ms on the shared clock. Default: when the engine receives it. */
  arrivalMs?: number;
}

/** One request's share of a step. */
export interface ScheduledRequest {
  requestId: string;
  /** The tokens to compute, at positions startPosition, startPosition + 1, ... */
  tokenIds: TokenIds;
  startPosition: number;
  /** The whole block table, for at least startPosition + tokenIds.length tokens. Never modified afterwards. */
  blockIds: BlockIds;
  /** Sample after the last of tokenIds; null while the prompt is not complete. */
  sample: { params: SamplingParams; outputIndex: number; forbiddenTokenIds: readonly number[] } | null;
}

export interface ScheduledBatch {
  step: number;
  requests: readonly ScheduledRequest[];
}

export interface SampledToken {
  requestId: string;
  tokenId: number;
  /** 64-bit digest of the bits of the row's logits, as 16 hex digits. */
  logitsDigest: string;
  /** The row of logits, [vocab_size], if the executor was asked to keep it; else null. */
  logits: Float32Array | null;
}

/** The executor's result for one row. */
export interface SampledRow extends Omit<SampledToken, 'tokenId'> {
  /** null if no token could be sampled because the logits are not numbers. */
  tokenId: number | null;
}

/** An interval of work or waiting, ms on the engine's clock. For tracing only: no decision depends on it. */
export interface EngineActivity {
  /**
   * queue: a request waits for the step that schedules it. lookup: its prefix hits are looked up. schedule: a step is
   * planned. step: a batch of several requests runs. collect: results are taken.
   */
  name: 'queue' | 'lookup' | 'schedule' | 'step' | 'collect';
  startMs: number;
  endMs: number;
  step: number;
  requestIds: readonly string[];
  /** For collect: blocks free at that time, and blocks held for ended requests. Else null. */
  blocks: { free: number; held: number } | null;
}

/** Runs a batch. Rows are computed in order, and KV is written before anything reads it. One call at a time. */
export interface ModelExecutor {
  execute(batch: ScheduledBatch): Promise<SampledRow[]>;
}

export type FinishReason = 'stop' | 'length' | 'abort' | 'error';

/** Where the KV of a prompt's tokens came from. Always: hit + pulled + computed = prompt tokens. */
export interface PromptAccount {
  promptTokens: number;
  localHitTokens: number;
  pulledTokens: number;
  /** Prompt rows that were dispatched. */
  computedTokens: number;
  /** null if tokens were pulled, or none were offered. */
  noPull: NoPull | null;
}

/**
 * policy: a pull was judged not worth its cost. request: the request asked for recomputation. offer: nothing that was
 * offered can be used. transfer: the pull failed. preemption: the pulled blocks were freed by a preemption.
 */
export const NO_PULL_REASONS = ['policy', 'request', 'offer', 'transfer', 'preemption'] as const;

/** Why nothing was pulled. */
export interface NoPull {
  by: (typeof NO_PULL_REASONS)[number];
  /** For display, e.g. '17 < threshold 64'. */
  reason: string;
}

/** A request's times up to its first step (vLLM's arrival_time, QUEUED and SCHEDULED), ms on the shared clock. */
export interface RequestTimes {
  arrivalMs: number;
  queuedMs: number;
  /** First time in a step, after any wait for remote KV. A preemption does not change it. null until then. */
  scheduledMs: number | null;
}

export interface RequestOutput {
  requestId: string;
  /** Tokens sampled in this step: one, or none if the request only ended. */
  tokens: SampledToken[];
  /** Simulated engines only: earlier tokens that no output has reported yet. */
  before?: TokenIds;
  /** Set from the first token on. */
  prompt: PromptAccount | null;
  times: Readonly<RequestTimes>;
  finish: null | {
    reason: FinishReason;
    /** Set if reason is 'error'. */
    error: {
      code: Extract<ErrorCode, 'transfer' | 'refused' | 'internal'> | 'expired';
      message: string;
    } | null;
    kvTransferParams: KvTransferParams | null;
    numPreemptions: number;
  };
}

export type RequestStatus =
  | 'waiting'
  | 'waiting_for_remote_kvs'
  | 'running'
  | 'preempted'
  | 'finished_stopped'
  | 'finished_length_capped'
  | 'finished_aborted'
  | 'finished_error';
