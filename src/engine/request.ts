/** One request as the engine keeps it: what is refused at the door, how far it is, when it stops. Others decide, and move it. */

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
  /** Tokens with KV in the request's blocks; while a load is under way, those that will have it. */
  numComputedTokens = 0;
  numPreemptions = 0;
  /** It got blocks once, whatever became of them. */
  wasAdmitted = false;
  /** The connector did not know, when it was asked last, what can be loaded of it. */
  isUnanswered = false;
  /** Why a finished request's blocks stay: a load still writes into them, or a reader may fetch them. */
  heldFor: 'load' | 'reader' | null = null;
  /** Since when it waits for a step, on the engine's clock; null while it runs or its KV is on its way. For spans only. */
  waitingSinceMs: number | null = null;
  /** Fixed by the first token. */
  prompt: PromptAccount | null = null;
  readonly #tokens: GrowingTokens;
  readonly #hashing: BlockHashing;
  /** As far as anyone asked, which is so many. */
  #blockHashes: readonly BlockHash[];
  #numHashed = 0;
  /** Those that the hasher does not keep. */
  readonly #madeHashes: BlockHash[] = [];
  /** The prefill under way. */
  #prefill = { localHitTokens: 0, pulledTokens: 0, computedTokens: 0 };
  #noPull: NoPull | null = null;

  /** `queuedMs`: now, on the engine's clock. */
  constructor(request: EngineRequest, queuedMs: number, hashing: BlockHashing) {
    this.requestId = request.requestId;
    this.promptTokenIds = request.promptTokenIds;
    this.sampling = request.sampling;
    this.kvTransferParams = request.kvTransferParams;
    this.cacheSalt = request.cacheSalt;
    this.times = { arrivalMs: request.arrivalMs ?? queuedMs, queuedMs, scheduledMs: null };
    this.#tokens = growingTokens(request.promptTokenIds, request.sampling.forcedTokenIds ?? NONE);
    this.#hashing = hashing;
    this.#blockHashes = this.#madeHashes;
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

  /** Of the prefill under way. */
  get localHitTokens(): number {
    return this.#prefill.localHitTokens;
  }

  /** Of the prefill under way. */
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

  /** Not copied: there may be more of them than were asked for. `numBlocks`: full ones. */
  hashesOfFirst(numBlocks: number): readonly BlockHash[] {
    if (this.#numHashed < numBlocks) {
      const sequence = { tokenIds: this.allTokenIds, cacheSalt: this.cacheSalt };
      const kept = keptHashes(sequence, this.#hashing, numBlocks);
      if (!kept) extendHashes(this.#madeHashes, sequence, this.#hashing, numBlocks);
      this.#blockHashes = kept ?? this.#madeHashes;
      this.#numHashed = numBlocks;
    }
    return this.#blockHashes;
  }

  /** The tokens [start, start + count). */
  tokenIds(start: number, count: number): TokenIds {
    return this.#tokens.slice(start, start + count);
  }

  /** Tokens from now on whose ids are forced. */
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

  /** A prefill starts with this many tokens hit and this many on their way. */
  beginPrefill(localHitTokens: number, pulledTokens: number, noPull: NoPull | null): void {
    this.wasAdmitted = true;
    this.numComputedTokens = localHitTokens + pulledTokens;
    this.#prefill = { localHitTokens, pulledTokens, computedTokens: 0 };
    this.#noPull = noPull ?? this.#noPull;
  }

  /** Forgets the prefill under way: its blocks are gone. */
  restart(): void {
    this.numComputedTokens = 0;
    if (this.#prefill.pulledTokens > 0)
      this.#noPull = { by: 'preemption', reason: 'what was pulled was lost to a preemption' };
    this.#prefill = { localHitTokens: 0, pulledTokens: 0, computedTokens: 0 };
  }

  /** Nothing of the load can be used, the local hit included: it starts over. */
  loseLoad(noPull: NoPull): void {
    this.restart();
    this.#noPull = noPull;
  }

  /** Fewer tokens than promised have KV: a load failed in part, or the last token must run to give logits. */
  shortenLoad(numComputedTokens: number, noPull: NoPull | null): void {
    this.numComputedTokens = numComputedTokens;
    this.#prefill.pulledTokens = numComputedTokens - this.#prefill.localHitTokens;
    invariant(this.#prefill.pulledTokens >= 0, () => `${this.requestId}: a load was cut into the local hit`);
    this.#noPull = noPull ?? this.#noPull;
  }

  /** The tokens [numComputedTokens, numComputedTokens + count) ran: all of them the prompt's while its account is open. */
  advance(count: number): void {
    this.#prefill.computedTokens += count;
    this.numComputedTokens += count;
  }

  /** After an output token was appended (vLLM's check_stop). Lengths stop a request whatever minTokens says. */
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

  /** Tokens that must not be drawn next: those that would end it before minTokens, or complete a bad word. */
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

  /** Closes the account of the prompt; call before the first output token is appended. */
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

/** Why a prompt of so many tokens is refused; null: the context has room for it and an answer. */
export const tooLong = (promptLength: number, maxModelLen: number): string | null =>
  promptLength + 1 > maxModelLen
    ? `the prompt has ${promptLength} tokens and the context ${maxModelLen}, which must hold one more: shorten the prompt`
    : null;

/**
 * What is refused, each with one sentence, so that no admitted request can wait for ever. Throws RequestError.
 * `numUsableBlocks`: blocks that one request can get at best.
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
    if (bad !== undefined) refuse(`${holds} ${bad}, which is no token id${vocabulary}`);
  };
  checkIds(promptTokenIds, 'the prompt holds');
  if (cacheSalt !== null && typeof cacheSalt !== 'string')
    refuse(`cacheSalt is ${cacheSalt}: give a string, or null`);
  const problem = samplingProblem(sampling);
  if (problem !== null) refuse(problem);
  checkIds(sampling.forcedTokenIds ?? NONE, 'the answer is to hold');
  checkIds(sampling.allowedTokenIds ?? NONE, 'allowedTokenIds holds');
  checkIds(sampling.stopTokenIds, 'stopTokenIds holds');
  checkIds(sampling.badWordsTokenIds?.flat() ?? NONE, 'badWordsTokenIds holds');
  const long = tooLong(promptLength, maxModelLen);
  if (long !== null) refuse(long);
  // The last token generated never gets KV.
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

/** The first that is no token id. */
function badToken(ids: TokenIds, vocabSize: number | null): number | undefined {
  if (ids instanceof TokenSequence) return undefined;
  const end = vocabSize ?? Number.POSITIVE_INFINITY;
  for (const id of ids) if (!(Number.isInteger(id) && id >= 0 && id < end)) return id;
  return undefined;
}
