/**
 * The interface between a port's HTTP routes (app.ts) and what they serve: one engine (engine-service.ts) or the router
 * (router-service.ts). Contains no HTTP.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { PromptAccount, SamplingParams } from '../engine/types.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import type { Cluster } from '../fleet/types.ts';
import type { InspectionApi } from '../host/engine-api.ts';
import type { GenerateRequest, Message, PromptEnd } from '../router/turn-types.ts';

/** The model as clients see it, the same on every port. */
export interface ServedModel {
  /** Names that a request may use. Responses have the first if the request names none. */
  names: readonly string[];
  /** Most tokens of prompt and output together. */
  maxModelLen: number;
  vocabSize: number;
  eosTokenIds: readonly number[];
}

/** Text to tokens and back. */
export interface TextTools {
  /** Adds no special tokens. Rejects with the signal's reason, or HttpError 503 if too many long texts are waiting. */
  encode(text: string, signal: AbortSignal): Promise<readonly number[]>;
  decode(tokenIds: readonly number[]): string;
  /** The token as written in the tokenizer's vocabulary. */
  token(tokenId: number): string;
  /** The token's UTF-8 bytes, also if it is part of a character; null: unknown. */
  bytes(tokenId: number): readonly number[] | null;
  /** Adds the special tokens that the model's tokenizer puts before and after a whole text. */
  withSpecialTokens(tokenIds: readonly number[]): readonly number[];
  /** Most characters of text that one token stands for. */
  readonly mostCharacters: number;
  /** Applies the model's chat template. Rejects as encode does, and with RequestError or ModelError. */
  encodeMessages(
    messages: readonly Message[],
    end: PromptEnd,
    signal: AbortSignal,
  ): Promise<readonly number[]>;
}

export type Prompt =
  | { kind: 'messages'; messages: readonly Message[]; end: PromptEnd }
  | { kind: 'text'; text: string }
  | { kind: 'tokens'; tokenIds: readonly number[] };

export interface GenerationRequest {
  /** The request's id at the engines: unique and unguessable. */
  requestId: string;
  prompt: Prompt;
  /** Whether the tokenizer's special tokens are added around a prompt of text. */
  addSpecialTokens: boolean;
  sampling: SamplingParams;
  /** Strings that end the answer. They are part of it only if includeStop. */
  stop: readonly string[];
  includeStop: boolean;
  /** Leave special tokens out of the text. */
  skipSpecialTokens: boolean;
  /** Requests with another salt never share blocks. */
  cacheSalt: string | null;
  /** Engine ports only. */
  kvTransferParams: Record<string, unknown> | null;
  /** Router port only: requests with the same id belong to one conversation; null: found by the history. */
  conversationId: string | null;
  /** Router port only: the policy or mix that routes the request; null: the router's own. */
  routing: string | null;
  /** Router port only: called with the engines that serve the request, again each time they change. */
  onEngines: NonNullable<GenerateRequest['onEngines']>;
  /** Called with the tokenised prompt before any engine gets the request; may throw. */
  onPrompt: (promptTokenIds: readonly number[]) => void;
  /** Ends the request at its engines at once. */
  signal: AbortSignal;
  /** Resolves when the client has received the whole response, or is gone. */
  received: Promise<void>;
}

export interface AnswerPiece {
  tokenId: number;
  /** Text that is now final. Empty inside a multi-token character, or while it may be the start of a stop string. */
  text: string;
  /** [vocab_size] if sampling.keepLogits is set. */
  logits: Float32Array | null;
  /** When the engine produced the token, milliseconds on the shared clock. */
  atMs: number;
  /** Set on the last piece. */
  final: AnswerEnd | null;
}

export interface AnswerEnd {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token id that ended the answer; null for an end token or the length limit. */
  stopReason: string | number | null;
  /** From the engine that prefilled. */
  prompt: PromptAccount;
  /** Those of the prompt's pulled tokens that came from a store. */
  storedTokens: number;
  kvTransferParams: KvTransferParams | null;
}

interface Service {
  /** For logs and metrics: an engine's name, or 'router'. */
  readonly name: string;
  readonly model: ServedModel;
  readonly text: TextTools;
  /** Requests that run at once; further ones wait. */
  readonly maxNumSeqs: number;
  /** Iteration throws RequestError, TransferError, RefusedError, EngineDeadError, HttpError, or the signal's reason. */
  generate(request: GenerationRequest): AsyncIterable<AnswerPiece>;
  /** Why it cannot serve now; null if it can. */
  unhealthy(): string | null;
}

/** The part of an engine that its port uses. */
export interface ServedEngine extends Pick<ThreadEngine, 'engineId' | 'role' | 'combined' | 'ended'> {
  inspection: Pick<InspectionApi, 'lookup' | 'stats'>;
}

export interface EngineService extends Service {
  readonly kind: 'engine';
  /** The current engine: another one after a restart. Throws EngineDeadError if it has left the fleet. */
  engine(): ServedEngine;
  /** Records the name by which a client reached the port (the Host header). */
  noteHost(host: string): void;
  /**
   * Called when a body was rejected before it reached the engine. The holder named in its kv_transfer_params is asked to free
   * the blocks, which it does only if they match its hold.
   */
  refused(body: unknown): void;
  /** False if blocks are in use or held; nothing is reset then. Rejects with HttpError 503 if the engine does not answer. */
  resetPrefixCache(): Promise<boolean>;
}

export interface RouterService extends Service {
  readonly kind: 'router';
  readonly cluster: Cluster;
}

export type PortService = EngineService | RouterService;
