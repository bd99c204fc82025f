/**
 * What the engine's policy (scheduler, KV cache manager) exchanges with the rest: requests in, batches out, and who runs
 * them; what it exchanges with a connector is kv-connector.ts. Policy only: nothing here knows a GPU, a thread or a byte.
 */

import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { ErrorCode } from '../errors.ts';

export type BlockId = number;

/** Block ids by KV cache group: one inner list per group (vLLM's shape everywhere). Id 0 is the null block. */
export type BlockIds = readonly (readonly BlockId[])[];

export const NULL_BLOCK: BlockId = 0;

/** Milliseconds on a clock that all threads share (performance.timeOrigin + performance.now()). */
export interface Clock {
  now(): number;
  /** Resolves after the given milliseconds, or at once when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface SamplingParams {
  /** Tokens to generate at most, >= 1. */
  maxTokens: number;
  /** End tokens are not sampled before this many tokens exist (vLLM's min_tokens). */
  minTokens: number;
  /** 0 is greedy. */
  temperature: number;
  /** 0 considers every token. */
  topK: number;
  /** 1 considers every token. */
  topP: number;
  /** Draws are keyed by (seed, output index) alone. */
  seed: number;
  stopTokenIds: readonly number[];
  ignoreEos: boolean;
  /** Nothing else is drawn; left out or null: every token may be. */
  allowedTokenIds?: readonly number[] | null;
  /** Sequences that the output must not hold: the last token of one is not drawn where it would complete it (vLLM's bad_words). */
  badWordsTokenIds?: readonly (readonly number[])[];
  /**
   * What is generated whatever the logits say, as far as the list goes: traces and simulations, whose next prompts hold it.
   * Logits and digests stay those that were computed. No door of a server sets it.
   */
  forcedTokenIds?: TokenIds;
  /** Returns the logits of each sampled token with it; left out: only where the engine keeps them all. */
  keepLogits?: boolean;
}

export interface EngineRequest {
  requestId: string;
  promptTokenIds: TokenIds;
  sampling: SamplingParams;
  kvTransferParams: KvTransferParams | null;
  /** Goes into the first block's hash: requests with another salt never share blocks. */
  cacheSalt: string | null;
  /** When the caller's side took it, on the shared clock; left out: when the engine gets it. */
  arrivalMs?: number;
}

/** One request's share of a step. */
export interface ScheduledRequest {
  requestId: string;
  /** The tokens to compute, at positions startPosition, startPosition + 1, ... */
  tokenIds: TokenIds;
  startPosition: number;
  /** The whole block table, long enough for startPosition + tokenIds.length tokens; it does not change any more. */
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
  /** 64-bit digest of the row's logits, bit for bit, as 16 hex digits. */
  logitsDigest: string;
  /** The row itself, [vocab_size], where the executor was asked to keep it. */
  logits: Float32Array | null;
}

/** What a row gave. */
export interface SampledRow extends Omit<SampledToken, 'tokenId'> {
  /** null: no token could be sampled, since its logits are no numbers. */
  tokenId: number | null;
}

/** What an engine did, or a request waited for, from when to when on the engine's clock. For spans only: nothing is decided by it. */
export interface EngineActivity {
  /**
   * queue: a request waits for the step that takes it. lookup: its hits are looked up. schedule: a step is planned. step:
   * a batch of several runs. collect: results are taken.
   */
  name: 'queue' | 'lookup' | 'schedule' | 'step' | 'collect';
  startMs: number;
  endMs: number;
  step: number;
  requestIds: readonly string[];
  /** With collect: blocks free then, and those that ended requests keep. */
  blocks: { free: number; held: number } | null;
}

/** Runs a batch. Rows are computed in order; KV is written before anything reads it. One call at a time. */
export interface ModelExecutor {
  execute(batch: ScheduledBatch): Promise<SampledRow[]>;
}

export type FinishReason = 'stop' | 'length' | 'abort' | 'error';

/** How a prompt's tokens came to have KV. hit + pulled + computed = prompt tokens, always. */
export interface PromptAccount {
  promptTokens: number;
  localHitTokens: number;
  pulledTokens: number;
  /** Prompt rows that were dispatched. */
  computedTokens: number;
  /** null when something was pulled, or nothing was offered. */
  noPull: NoPull | null;
}

/** Why nothing was pulled. */
export interface NoPull {
  /**
   * policy: the pull was found not worth it. request: it asked for computing. offer: nothing of what was offered can be
   * used. transfer: what was asked for did not come. preemption: it came, and its blocks were given back.
   */
  by: 'policy' | 'request' | 'offer' | 'transfer' | 'preemption';
  /** For people, e.g. '17 < threshold 64'. */
  reason: string;
}

/** A request's way to its first step (vLLM's arrival_time, QUEUED and SCHEDULED), milliseconds on the shared clock. */
export interface RequestTimes {
  arrivalMs: number;
  queuedMs: number;
  /** After any wait for remote KV; a preemption does not move it. null while it was never scheduled. */
  scheduledMs: number | null;
}

export interface RequestOutput {
  requestId: string;
  /** Tokens sampled in this step: one, or none when the request only ended. */
  tokens: SampledToken[];
  /** Of a simulated engine: tokens before these that it has not told of yet. */
  before?: TokenIds;
  /** Set with the first token and from then on. */
  prompt: PromptAccount | null;
  times: Readonly<RequestTimes>;
  finish: null | {
    reason: FinishReason;
    /** Set when reason is 'error'. */
    error: { code: Extract<ErrorCode, 'transfer' | 'refused' | 'internal'>; message: string } | null;
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
