/**
 * The engine's record of one request: validation, progress, prompt account and stop conditions. It makes no scheduling
 * decisions: the scheduler and postprocessing change its status.
 */

import type { EngineCoreConfig } from '../config/engine.ts';
import { type TokenIds, TokenSequence } from '../config/token-ids.ts';
import { invariant, RequestError } from '../errors.ts';
import { type BlockHash, type BlockHashing, extendHashes, keptHashes } from './block-hash.ts';
import { type GrowingTokens, growingTokens } from './growing-tokens.ts';
import { mostBlocksInAll } from './kv-cache-spec.ts';
import type { ConnectorRequest } from './kv-connector.ts';
import { samplingProblem } from './sampling.ts';
import type {
  EngineRequest,
  NoPull,
  PromptAccount,
  RequestStatus,
  RequestTimes,
  SamplingParams,
} from './types.ts';

const NONE: readonly number[] = [];

export class Request implements ConnectorRequest {
  readonly requestId: string;
  readonly promptTokenIds: TokenIds;
  readonly sampling: SamplingParams;
  readonly kvTransferParams: EngineRequest['kvTransferParams'];
  readonly cacheSalt: string | null;
  readonly times: RequestTimes;
  status: RequestStatus = 'waiting';
  /** Tokens with KV in the request's blocks; during a load, including those being loaded. */
  numComputedTokens = 0;
  numPreemptions = 0;
  /** The request has been allocated blocks at least once. */
  wasAdmitted = false;
  /** At the last call, the connector did not know yet what it can load. */
  isUnanswered = false;
  /** Why a finished request keeps its blocks: a load still writes into them, or a reader may fetch them. */
  heldFor: 'load' | 'reader' | null = null;
  /** When it began to wait for a step, ms on the engine's clock; null while running or loading. For tracing only. */
  waitingSinceMs: number | null = null;
  /** Set by closePrompt(), before the first token. */
  prompt: PromptAccount | null = null;
  readonly #tokens: GrowingTokens;
  readonly #hashing: BlockHashing;
  /** Valid for the first #numHashed blocks: hashes are computed on demand. */
  #blockHashes: readonly BlockHash[];
  #numHashed = 0;
  /** Own hashes, used where the hasher keeps none. */
  readonly #computedHashes: BlockHash[] = [];
  /** The current prefill. */
  #prefill = { localHitTokens: 0, pulledTokens: 0, computedTokens: 0 };
  #noPull: NoPull | null = null;

  /** `queuedMs`: now, ms on the engine's clock. */
  constructor(request: EngineRequest, queuedMs: number, hashing: BlockHashing) {
    this.requestId = request.requestId;
    this.promptTokenIds = request.promptTokenIds;
    this.sampling = request.sampling;
    this.kvTransferParams = request.kvTransferParams;
    this.cacheSalt = request.cacheSalt;
    this.times = { arrivalMs: request.arrivalMs ?? queuedMs, queuedMs, scheduledMs: null };
    this.#tokens = growingTokens(request.promptTokenIds, request.sampling.forcedTokenIds ?? NONE);
    this.#hashing = hashing;
    this.#blockHashes = this.#computedHashes;
  }

  get allTokenIds(): TokenIds {
    return this.#tokens.ids;
  }

  get numTokens(): number {
    return this.#tokens.length;
  }

  get numOutputTokens(): number {
    return this.#tokens.length - this.promptTokenIds.length;
  }

  /** Of the current prefill. */
  get localHitTokens(): number {
    return this.#prefill.localHitTokens;
  }

  /** Of the current prefill. */
  get pulledTokens(): number {
    return this.#prefill.pulledTokens;
  }

  get isFinished(): boolean {
    return this.status.startsWith('finished_');
  }

  blockHashes(numBlocks: number = Number.POSITIVE_INFINITY): readonly BlockHash[] {
    const full = Math.min(numBlocks, Math.floor(this.numTokens / this.#hashing.blockSize));
    return this.hashesOfFirst(full).slice(0, full);
  }

  /** Hashes of at least the first numBlocks blocks, which must be full. A shared list: do not modify it. */
  hashesOfFirst(numBlocks: number): readonly BlockHash[] {
    if (this.#numHashed < numBlocks) {
      const sequence = { tokenIds: this.allTokenIds, cacheSalt: this.cacheSalt };
      const kept = keptHashes(sequence, this.#hashing, numBlocks);
      if (!kept) extendHashes(this.#computedHashes, sequence, this.#hashing, numBlocks);
      this.#blockHashes = kept ?? this.#computedHashes;
      this.#numHashed = numBlocks;
    }
    return this.#blockHashes;
  }

  /** The tokens [start, start + count). */
  tokenIds(start: number, count: number): TokenIds {
    return this.#tokens.slice(start, start + count);
  }

  /** How many of the next tokens are forced. */
  get numForced(): number {
    return Math.max(0, (this.sampling.forcedTokenIds?.length ?? 0) - this.numOutputTokens);
  }

  /** `count`: at most numForced. */
  appendForced(count: number): void {
    this.#tokens.pushForced(count);
  }

  appendOutput(tokenId: number): void {
    this.#tokens.push(tokenId);
  }

  /** Starts a prefill with this many tokens hit and this many being loaded. */
  beginPrefill(localHitTokens: number, pulledTokens: number, noPull: NoPull | null): void {
    this.wasAdmitted = true;
    this.numComputedTokens = localHitTokens + pulledTokens;
    this.#prefill = { localHitTokens, pulledTokens, computedTokens: 0 };
    this.#noPull = noPull ?? this.#noPull;
  }

  /** Discards the current prefill: its blocks are gone. */
  restart(): void {
    this.numComputedTokens = 0;
    if (this.#prefill.pulledTokens > 0)
      this.#noPull = { by: 'preemption', reason: 'the pulled blocks were lost to a preemption' };
    this.#prefill = { localHitTokens: 0, pulledTokens: 0, computedTokens: 0 };
  }

  /** Starts over: neither the load nor the local hit can be used. */
  loseLoad(noPull: NoPull): void {
    this.restart();
    this.#noPull = noPull;
  }

  /** Fewer tokens than promised have KV: the load failed in part, or the last token must run to produce logits. */
  shortenLoad(numComputedTokens: number, noPull: NoPull | null): void {
    this.numComputedTokens = numComputedTokens;
    this.#prefill.pulledTokens = numComputedTokens - this.#prefill.localHitTokens;
    invariant(this.#prefill.pulledTokens >= 0, () => `${this.requestId}: a load was cut into the local hit`);
    this.#noPull = noPull ?? this.#noPull;
  }

  /** The tokens [numComputedTokens, numComputedTokens + count) ran. Until closePrompt(), all are prompt tokens. */
  advance(count: number): void {
    this.#prefill.computedTokens += count;
    this.numComputedTokens += count;
  }

  /** Call after appending an output token (vLLM's check_stop). Length limits apply even before minTokens. */
  stopStatus(
    eosTokenIds: readonly number[],
    maxModelLen: number,
  ): 'finished_stopped' | 'finished_length_capped' | null {
    const { sampling, numTokens, numOutputTokens } = this;
    const ends = !sampling.ignoreEos || sampling.stopTokenIds.length > 0;
    if (ends && numOutputTokens >= sampling.minTokens) {
      const { last } = this.#tokens;
      const atEos = !sampling.ignoreEos && eosTokenIds.includes(last);
      if (atEos || sampling.stopTokenIds.includes(last)) return 'finished_stopped';
    }
    const atLength = numTokens >= maxModelLen || numOutputTokens >= sampling.maxTokens;
    return atLength ? 'finished_length_capped' : null;
  }

  /** Tokens that must not be drawn next: they would end the output before minTokens, or complete a bad word. */
  forbiddenTokenIds(eosTokenIds: readonly number[]): readonly number[] {
    const { minTokens, stopTokenIds, badWordsTokenIds = [] } = this.sampling;
    if (this.numOutputTokens >= minTokens && badWordsTokenIds.length === 0) return NONE;
    const ends = this.numOutputTokens < minTokens ? [...eosTokenIds, ...stopTokenIds] : [];
    const completing = badWordsTokenIds.filter((word) => this.#outputEndsWith(word.slice(0, -1)));
    return [...new Set([...ends, ...completing.map((word) => word.at(-1)!)])];
  }

  #outputEndsWith(tokenIds: readonly number[]): boolean {
    const from = this.numTokens - tokenIds.length;
    return (
      from >= this.promptTokenIds.length && tokenIds.every((id, i) => this.allTokenIds.at(from + i) === id)
    );
  }

  /** Fixes the prompt account. Call before appending the first output token. */
  closePrompt(): PromptAccount {
    const promptTokens = this.promptTokenIds.length;
    const { localHitTokens, pulledTokens, computedTokens } = this.#prefill;
    invariant(
      localHitTokens + pulledTokens + computedTokens === promptTokens,
      () =>
        `${this.requestId}: ${localHitTokens} hit + ${pulledTokens} pulled + ${computedTokens} computed is not ${promptTokens}`,
    );
    const noPull = pulledTokens > 0 ? null : this.#noPull;
    this.prompt = { promptTokens, localHitTokens, pulledTokens, computedTokens, noPull };
    return this.prompt;
  }
}

/** Why a prompt of this many tokens is refused; null if the context has room for it and one output token. */
export const tooLong = (promptLength: number, maxModelLen: number): string | null =>
  promptLength + 1 > maxModelLen
    ? `the prompt has ${promptLength} tokens, and the context of ${maxModelLen} must have room for one more: shorten the prompt`
    : null;

/**
 * Whether a salt has half of a surrogate pair. Salts are hashed as UTF-8, in which all such halves are the same, so that
 * different salts would share blocks.
 */
export const hasHalfPair = (salt: string): boolean => /\p{Cs}/u.test(salt);

/**
 * Throws RequestError, with one sentence, if the request is invalid or could never be served, so that no admitted request
 * waits for ever. `numUsableBlocks`: the most blocks that one request can get.
 */
export function checkRequest(
  request: EngineRequest,
  config: EngineCoreConfig,
  numUsableBlocks: number,
): void {
  const { requestId, promptTokenIds, sampling, cacheSalt } = request;
  const { maxModelLen } = config.scheduler;
  const { blockSize } = config.cache;
  const promptLength = promptTokenIds.length;
  const refuse = (found: string): never => {
    throw new RequestError(`request ${requestId}: ${found}`);
  };
  if (promptLength === 0) refuse('the prompt is empty: give at least one token');
  const { vocabSize } = config;
  const checkIds = (ids: TokenIds, holds: string): void => {
    const bad = badToken(ids, vocabSize);
    const vocabulary = vocabSize === null ? '' : ` of a vocabulary of ${vocabSize}`;
    if (bad !== undefined) refuse(`${holds} ${bad}, which is not a token id${vocabulary}`);
  };
  checkIds(promptTokenIds, 'the prompt holds');
  if (cacheSalt !== null && typeof cacheSalt !== 'string')
    refuse(`cacheSalt is ${cacheSalt}: give a string, or null`);
  if (hasHalfPair(cacheSalt ?? ''))
    refuse('cacheSalt has half of a surrogate pair: give a string of whole characters');
  const problem = samplingProblem(sampling);
  if (problem !== null) refuse(problem);
  checkIds(sampling.forcedTokenIds ?? NONE, 'forcedTokenIds holds');
  checkIds(sampling.allowedTokenIds ?? NONE, 'allowedTokenIds holds');
  checkIds(sampling.stopTokenIds, 'stopTokenIds holds');
  checkIds(sampling.badWordsTokenIds?.flat() ?? NONE, 'badWordsTokenIds holds');
  const long = tooLong(promptLength, maxModelLen);
  if (long !== null) refuse(long);
  // The last generated token never gets KV.
  const maxKvTokens = Math.min(promptLength + sampling.maxTokens, maxModelLen) - 1;
  const needed = mostBlocksInAll(maxKvTokens, config);
  if (needed > numUsableBlocks) {
    const { length } = config.cache.groups;
    refuse(
      `${promptLength} prompt tokens and up to ${maxKvTokens + 1 - promptLength} more need ${needed} blocks of ${blockSize} tokens` +
        `${length > 1 ? ` in ${length} KV cache groups` : ''}, ` +
        `the pool of ${config.engineId} has ${numUsableBlocks}: give it ${needed + 1} blocks or more, or ask for less`,
    );
  }
}

/** The first element that is not a token id. */
function badToken(ids: TokenIds, vocabSize: number | null): number | undefined {
  if (ids instanceof TokenSequence) return undefined;
  const end = vocabSize ?? Number.POSITIVE_INFINITY;
  for (const id of ids) if (!(Number.isInteger(id) && id >= 0 && id < end)) return id;
  return undefined;
}
