/** The request for a turn, and the result of one. */

import type { PullPolicyName } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { FinishReason, PromptAccount, SamplingParams } from '../engine/types.ts';
import type { TransferStages } from '../transport/types.ts';
import type { RoutedTurn } from './decision.ts';

export interface Message {
  role: string;
  content: string;
}

/**
 * How a rendered prompt ends: with the head of the assistant's answer, with nothing added, or with the last message
 * left open so that the answer continues it.
 */
export type PromptEnd = 'generation_prompt' | 'plain' | 'continue';

export interface GenerateRequest {
  /** Requests with the same id belong to one conversation; null starts a new one (see findConversation). */
  conversationId: string | null;
  /** The whole prompt, history included. Give exactly one of promptTokenIds, messages and promptText. */
  promptTokenIds?: TokenIds;
  /**
   * The whole conversation so far. The router keeps what it generated as token ids, so an unchanged history is not
   * tokenised again.
   */
  messages?: readonly Message[];
  /** Default: 'generation_prompt'. */
  promptEnd?: PromptEnd;
  /** The whole prompt as text, without any chat template. */
  promptText?: string;
  /** Adds the special tokens with which the model's tokenizer begins and ends a text to promptText. Default: false. */
  addSpecialTokens?: boolean;
  sampling?: Partial<SamplingParams>;
  /** How P decides whether to pull what D has, for this request only. Default: the cluster's policy. */
  pull?: PullPolicyName;
  /** Strings that end the answer. They are part of its text only with includeStop. */
  stop?: readonly string[];
  includeStop?: boolean;
  /** Omits the text of special tokens. Default: false. */
  skipSpecialTokens?: boolean;
  /** Requests with different salts never share blocks. */
  cacheSalt?: string | null;
  /** For requests without an id: continues the known conversation whose last prompt and answer begin this prompt. */
  findConversation?: boolean;
  /**
   * Serves the turn on other engines if an engine or a transfer fails; the tokens stay the same. Default: the error
   * is thrown.
   */
  failover?: boolean;
  /** Turns text into token ids, without special tokens. Default: the model's tokenizer, in this thread. */
  encode?: (text: string) => Promise<readonly number[]>;
  /** Called with the prompt before any engine is asked. If it throws, the turn ends with that error. */
  onPrompt?: (promptTokenIds: readonly number[]) => void;
  /** Yields only the last token, which carries the turn's result. */
  onlyEnd?: boolean;
  /** Name of a policy or mix that routes this request; null or absent: the active one. */
  routing?: string | null;
  /**
   * Called with the engines that serve the turn, at its start and again for each further attempt. `prefill` is null if
   * one engine does both.
   */
  onEngines?: (way: { prefill: string | null; decode: string }) => void;
  /** Aborts the turn at its engines at once. */
  signal?: AbortSignal;
}

export interface TransferSummary {
  bytes: number;
  blocks: number;
  /** From a store only: tokens whose KV it was for. */
  tokens?: number;
  ms: number;
  /** Streamed handover only: the part of ms in which its bytes were moving. */
  movingMs?: number;
  /** Gigabytes per second (10^9 bytes), over movingMs if present, otherwise over ms. */
  gbps: number;
  descriptors: number;
  /** Whether a modelled link slowed the transfer down. */
  throttled: boolean;
  stages: TransferStages;
}

export interface TurnResult {
  conversationId: string;
  /** Counts from 1. */
  turn: number;
  promptTokenIds: TokenIds;
  outputTokenIds: TokenIds;
  /** Without the end token. */
  text: string;
  finishReason: FinishReason;
  /** The stop string or stop token id that ended the answer; null or absent if an end token or the length did. */
  stopReason?: string | number | null;
  /** Account of the prompt at the engine that prefilled it. */
  prompt: PromptAccount;
  /** From the router's acceptance to the first token of D (of the only engine when monolithic), in milliseconds. */
  ttftMs: number;
  /** Mean time between tokens after the first, in milliseconds; null if there is only one token. */
  tpotMs: number | null;
  latencyMs: number;
  /**
   * Where the TTFT went: for each stage (src/measure/spans/stages.ts) the milliseconds in which the first token waited for
   * it. They add up to ttftMs.
   */
  stagesMs: Readonly<Record<string, number>>;
  /** Milliseconds in which each stage ran while the first token waited for another one. */
  overlappedMs: Readonly<Record<string, number>>;
  /** The routing decision. null: the plan's engines had ended; absent: the turn was not routed. */
  routed?: RoutedTurn | null;
  transfer: {
    pToD: TransferSummary | null;
    dToP: TransferSummary | null;
    /** Absent or null: nothing came from a store. */
    storeToP?: TransferSummary | null;
    storeToD?: TransferSummary | null;
  };
}

/** A routed turn whose answer was not completed. */
export interface FailedTurn {
  conversationId: string;
  /** Counts from 1. */
  turn: number;
  routed: RoutedTurn;
  /** 'aborted': its reader left, or its signal fired. */
  outcome: 'aborted' | 'failed';
  /** null: there was no token. */
  ttftMs: number | null;
}

export interface GeneratedToken {
  tokenId: number;
  /** Text that this token completed. Empty inside a multi-byte character, and for the token that ends the turn. */
  text: string;
  /** Counts from 0. */
  index: number;
  /** When the engine had the token, in milliseconds on the shared clock. */
  atMs: number;
  logitsDigest: string;
  logits: Float32Array | null;
  /** Set with the last token only. */
  final: TurnResult | null;
}

/** The fields of a request that determine its prompt. */
export type PromptSource = Pick<
  GenerateRequest,
  | 'conversationId'
  | 'findConversation'
  | 'messages'
  | 'promptText'
  | 'promptTokenIds'
  | 'cacheSalt'
  | 'encode'
  | 'addSpecialTokens'
>;
