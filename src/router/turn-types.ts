/** What a turn is asked for with, and what it gives. */

import type { PullPolicyName } from '../config/kv-transfer.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { FinishReason, PromptAccount, SamplingParams } from '../engine/types.ts';
import type { TransferStages } from '../transport/types.ts';
import type { RoutedTurn } from './decision.ts';

export interface Message {
  role: string;
  content: string;
}

/** What a prompt of messages ends with: the head of an answer, nothing more, or the last message without its end, to be gone on with. */
export type PromptEnd = 'generation_prompt' | 'plain' | 'continue';

export interface GenerateRequest {
  /** Turns with the same id are one conversation; null is a conversation of its own. */
  conversationId: string | null;
  /** The whole prompt, history included. Give this or messages. */
  promptTokenIds?: TokenIds;
  /**
   * Whole conversation so far. What was generated before is kept as token ids, so an unchanged history is not
   * tokenised again.
   */
  messages?: readonly Message[];
  /** Left out: the head of an answer. */
  promptEnd?: PromptEnd;
  /** The whole prompt as text, without any chat template. */
  promptText?: string;
  /** Of promptText: with those that the model's tokenizer begins and ends a text with. Left out: without. */
  addSpecialTokens?: boolean;
  sampling?: Partial<SamplingParams>;
  /** How P decides on pulling what D has, for this request only; left out: as the cluster is set. */
  pull?: PullPolicyName;
  /** Strings that end the answer, and are not part of it unless includeStop. */
  stop?: readonly string[];
  includeStop?: boolean;
  /** Special tokens have no text; left out: theirs. */
  skipSpecialTokens?: boolean;
  /** Requests with another salt never share blocks. */
  cacheSalt?: string | null;
  /** Without an id: goes on with the known conversation whose last prompt and answer this prompt begins with. */
  findConversation?: boolean;
  /** Serves the turn another way when an engine or a transfer fails, with the same tokens. Left out: such errors are thrown. */
  failover?: boolean;
  /** How text becomes token ids, without special tokens; left out: by the model's tokenizer, in this thread. */
  encode?: (text: string) => Promise<readonly number[]>;
  /** Told the prompt before any engine is asked; what it throws ends the turn. */
  onPrompt?: (promptTokenIds: readonly number[]) => void;
  /** Gives the last token alone, with the turn's result. */
  onlyEnd?: boolean;
  /** Routed by this policy or mix in place of the one in force; null or left out: by that one. */
  routing?: string | null;
  /** Told who serves it, each time that it goes another way; `prefill` null: one engine does both. */
  onWay?: (way: { prefill: string | null; decode: string }) => void;
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
  promptTokenIds: TokenIds;
  outputTokenIds: TokenIds;
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
  /** Who was chosen of whom, and why; null where the plan's engines had ended, absent where nothing routes. */
  routed?: RoutedTurn | null;
  transfer: {
    pToD: TransferSummary | null;
    dToP: TransferSummary | null;
    /** Absent or null: nothing came from a store. */
    storeToP?: TransferSummary | null;
    storeToD?: TransferSummary | null;
  };
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

/** What of a request decides its prompt. */
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
