/**
 * What one HTTP port serves, without HTTP: an engine on its own (P or D), or the router before them. The handlers of
 * app.ts know only this; engine-service.ts and router-service.ts are the two kinds.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { PromptAccount, SamplingParams } from '../engine/types.ts';
import type { ThreadEngine } from '../fleet/thread-engine.ts';
import type { Cluster } from '../fleet/types.ts';
import type { InspectionApi } from '../host/engine-api.ts';
import type { GenerateRequest, Message, PromptEnd } from '../router/turn-types.ts';

/** What clients are told of the model, the same on every port. */
export interface ServedModel {
  /** Names that a request may give; the first is the one that answers carry. */
  names: readonly string[];
  /** Longest prompt and output together, tokens. */
  maxModelLen: number;
  vocabSize: number;
  eosTokenIds: readonly number[];
}

/** Text to tokens and back. */
export interface TextTools {
  /** No special tokens are added. Rejects with the signal's reason, or HttpError 503 when there is no room for a long text. */
  encode(text: string, signal: AbortSignal): Promise<readonly number[]>;
  decode(tokenIds: readonly number[]): string;
  /** As it stands in the tokenizer's vocabulary. */
  token(tokenId: number): string;
  /** A whole text's tokens, and those that the model's tokenizer puts before and after them. */
  withSpecialTokens(tokenIds: readonly number[]): readonly number[];
  /** Characters of a text that one token stands for at most. */
  readonly mostCharacters: number;
  /** By the model's chat template. Rejects as encode does, and with RequestError or ModelError. */
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
  /** Unique, and not to be guessed; the engines know the request by it. */
  requestId: string;
  prompt: Prompt;
  /** Of a prompt of text: with the special tokens before and after it. */
  addSpecialTokens: boolean;
  sampling: SamplingParams;
  /** Strings that end the answer; they are not part of it unless includeStop. */
  stop: readonly string[];
  includeStop: boolean;
  /** Special tokens have no text. */
  skipSpecialTokens: boolean;
  /** Requests with another salt never share blocks. */
  cacheSalt: string | null;
  /** Engine ports only: what travels with the request. */
  kvTransferParams: Record<string, unknown> | null;
  /** Router port only: requests with the same id are one conversation; null: found from the history. */
  conversationId: string | null;
  /** Router port only: the policy or mix that routes it; null: the one in force. */
  routing: string | null;
  /** Router port only: told who serves it, each time that it goes another way. */
  onWay: NonNullable<GenerateRequest['onWay']>;
  /** Told the prompt once it is known, before any engine is asked; may throw. */
  onPrompt: (promptTokenIds: readonly number[]) => void;
  /** Ends the request at its engines at once. */
  signal: AbortSignal;
}

export interface AnswerPiece {
  tokenId: number;
  /** Text that is certain now: empty inside a character, or while it may be the start of a stop string. */
  text: string;
  /** [vocab_size], when sampling.keepLogits asked for it. */
  logits: Float32Array | null;
  /** When the engine had it, milliseconds on the shared clock. */
  atMs: number;
  /** With the last piece. */
  final: AnswerEnd | null;
}

export interface AnswerEnd {
  finishReason: 'stop' | 'length';
  /** The stop string or stop token that ended it; null for an end token or a length. */
  stopReason: string | number | null;
  /** Of the engine that prefilled. */
  prompt: PromptAccount;
  /** Of the prompt's pulled tokens those that a store gave. */
  storedTokens: number;
  kvTransferParams: KvTransferParams | null;
}

interface Service {
  /** For logs and metrics: an engine's id, or 'router'. */
  readonly name: string;
  readonly model: ServedModel;
  readonly text: TextTools;
  /** Requests that are served at once; more of them wait. */
  readonly maxNumSeqs: number;
  /** Throws RequestError, TransferError, RefusedError, EngineDeadError, or the signal's reason. */
  generate(request: GenerationRequest): AsyncIterable<AnswerPiece>;
  /** Why it cannot serve now; null when it can. */
  unhealthy(): string | null;
}

/** What a port tells of its engine. */
export interface ServedEngine extends Pick<ThreadEngine, 'engineId' | 'role' | 'ended'> {
  inspection: Pick<InspectionApi, 'lookup' | 'stats'>;
}

export interface EngineService extends Service {
  readonly kind: 'engine';
  /** The engine as it is now: another one after it was revived. */
  engine(): ServedEngine;
  /** A client reached its port under this name, the header Host. */
  askedUnder(host: string): void;
  /** A body was refused at the door: a holder that its kv_transfer_params name is told to free, if they are its own. */
  refused(body: unknown): void;
  /** False, and nothing done, while blocks are in use or held. Rejects with HttpError 503 when the engine does not answer. */
  resetPrefixCache(): Promise<boolean>;
}

export interface RouterService extends Service {
  readonly kind: 'router';
  readonly cluster: Cluster;
}

export type PortService = EngineService | RouterService;
