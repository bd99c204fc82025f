/**
 * Turns an engine's outputs into an answer: text token by token, also ended by stop strings. Text that may be the
 * start of a stop string is held back until that is certain.
 */
import { appended, type TokenIds } from '../config/token-ids.ts';
import type { FinishReason, PromptAccount, RequestOutput, SampledToken } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { TimedOutput } from './output-stream.ts';

/** Turns token ids into text as they come. */
export interface StreamDecoder {
  /** Text that this token completes; empty inside a multi-byte character. */
  push(tokenId: number): string;
  /** The rest of the text after the last token. */
  end(): string;
  /** True if no token has any text. */
  silent?: boolean;
}

export interface AnswerOptions {
  decoder: StreamDecoder;
  eosTokenIds: readonly number[];
  /** Strings that end the answer. */
  stop: readonly string[];
  /** Keeps the stop string, or the stop token's text, in the answer. */
  includeStop: boolean;
  /** Stop strings do not count if they end within the text of this many first tokens (vLLM's min_tokens). */
  minTokens: number;
  /** Called when the text contains a stop string: the engine should end the request. */
  onStop: () => void;
  /** Yields only the last token, together with those before it. */
  onlyEnd?: boolean;
}

export interface AnswerToken {
  token: SampledToken;
  /** Text that is now certain. */
  text: string;
  index: number;
  atMs: number;
  output: RequestOutput;
  end: AnswerEnd | null;
  /** With onlyEnd: the tokens that were not yielded; null: there are none. */
  before?: TokensBefore | null;
}

/** Tokens that are reported only with the last one. */
export interface TokensBefore {
  tokenIds: TokenIds;
  text: string;
  /** Time of the first of these tokens, in milliseconds. */
  atMs: number;
}

export interface AnswerEnd {
  reason: FinishReason;
  /** The stop string, or the id of a stop token that is not an end token; null for an end token or a length. */
  stopReason: string | number | null;
  /**
   * Leading output tokens whose text is exactly the answer's, an end token included; null: the answer ends inside a
   * token.
   */
  keptTokens: number | null;
  /** Whether the last of these is an end token without text. */
  unsaidEnd: boolean;
  prompt: PromptAccount | null;
  finish: NonNullable<RequestOutput['finish']>;
}

/**
 * Throws RequestError unless `stop` is a list of non-empty strings. An empty string would end every answer at its
 * first token.
 */
export function checkStop(stop: readonly string[]): void {
  if (Array.isArray(stop) && stop.every((each) => typeof each === 'string' && each !== '')) return;
  throw new RequestError(`stop is ${JSON.stringify(stop)}: wanted a list of non-empty strings`);
}

/** Yields one item per token, or with onlyEnd only the last. Tokens after a stop string are dropped. */
export async function* readAnswer(
  outputs: AsyncIterable<TimedOutput>,
  options: AnswerOptions,
): AsyncGenerator<AnswerToken> {
  const text = new AnswerText(options);
  let before: TokensBefore | null = null;
  let index = 0;
  /** The token whose text completed a stop string; it is yielded once the engine has ended the request. */
  let last: Omit<AnswerToken, 'end'> | null = null;
  for await (const { output, atMs } of outputs) {
    const { finish } = output;
    // Tokens that need no inspection one by one.
    const unseen = options.onlyEnd && options.stop.length === 0 ? output.before : undefined;
    if (unseen) {
      before = withMore(before, unseen, text.pushAll(unseen), atMs);
      index += unseen.length;
    }
    const tokens = unseen ? output.tokens : tokensOf(output);
    for (const [i, token] of tokens.entries()) {
      if (last) break;
      const ends = i === tokens.length - 1 ? finish : null;
      // The token that ends an answer is not part of it unless includeStop is set.
      const skips = ends?.reason === 'stop' && !options.includeStop;
      let said = skips ? text.skip() : text.push(token.tokenId);
      if (ends) said += text.end();
      const item = { token, text: said, index: index++, atMs, output };
      if (!ends && text.stoppedBy !== null) {
        last = item;
        options.onStop();
      } else if (options.onlyEnd && !ends) before = withMore(before, [token.tokenId], said, atMs);
      else yield ended(item, before, ends && endOf(ends, output, text, token.tokenId, options.eosTokenIds));
    }
    if (last && finish)
      yield ended(last, before, endOf(finish, output, text, last.token.tokenId, options.eosTokenIds));
  }
}

/** Built field by field: spreading would give each object its own hidden class and slow down its readers. */
function ended(
  { token, text, index, atMs, output }: Omit<AnswerToken, 'end'>,
  before: TokensBefore | null,
  end: AnswerEnd | null,
): AnswerToken {
  return { token, text, index, atMs, output, end, before };
}

/** All tokens one by one, including those in `before`. */
function tokensOf({ requestId, tokens, before = [] }: RequestOutput): readonly SampledToken[] {
  if (before.length === 0) return tokens;
  return [
    ...[...before].map((tokenId) => ({ requestId, tokenId, logitsDigest: '', logits: null })),
    ...tokens,
  ];
}

const withMore = (before: TokensBefore | null, more: TokenIds, text: string, atMs: number): TokensBefore =>
  before
    ? { tokenIds: appended(before.tokenIds, more), text: before.text + text, atMs: before.atMs }
    : { tokenIds: more.slice(), text, atMs };

function endOf(
  finish: AnswerEnd['finish'],
  { prompt }: RequestOutput,
  text: AnswerText,
  lastTokenId: number,
  eosTokenIds: readonly number[],
): AnswerEnd {
  if (text.stoppedBy !== null) {
    const { stoppedBy: stopReason, keptTokens } = text;
    return { reason: 'stop', stopReason, keptTokens, unsaidEnd: false, prompt, finish };
  }
  const atStopToken = finish.reason === 'stop' && !eosTokenIds.includes(lastTokenId);
  const unsaid = finish.reason === 'stop' && text.lastIsSilent;
  return {
    reason: finish.reason,
    stopReason: atStopToken ? lastTokenId : null,
    keptTokens: text.numTokens - (atStopToken && unsaid ? 1 : 0),
    unsaidEnd: unsaid && !atStopToken,
    prompt,
    finish,
  };
}

class AnswerText {
  /** The stop string that was found. */
  stoppedBy: string | null = null;
  numTokens = 0;
  /** The last token has no text. */
  lastIsSilent = false;
  readonly #options: AnswerOptions;
  readonly #longest: number;
  /** Decoded but not yet given out. */
  #held = '';
  /** Characters given out, i.e. decoded before #held. */
  #given = 0;
  /** Characters decoded from the first minTokens tokens: no stop string may end within them. */
  #tooEarly = 0;
  /** Characters decoded after each token. */
  readonly #ends: number[] = [];
  /** Where the answer was cut, in decoded characters. */
  #cut = 0;

  constructor(options: AnswerOptions) {
    this.#options = options;
    this.#longest = Math.max(0, ...options.stop.map((stop) => stop.length));
  }

  /** Counts a token without text. */
  skip(): string {
    this.numTokens++;
    this.lastIsSilent = true;
    return '';
  }

  push(tokenId: number): string {
    const index = this.numTokens++;
    const { decoder, stop, minTokens } = this.#options;
    const decoded = decoder.push(tokenId);
    this.lastIsSilent = decoded === '';
    if (stop.length === 0) return decoded;
    this.#held += decoded;
    this.#ends.push(this.#given + this.#held.length);
    if (index >= minTokens) return this.#search(false);
    this.#tooEarly = this.#given + this.#held.length;
    return this.#give(this.#held.length - this.#possibleStart());
  }

  /** For answers without stop strings. */
  pushAll(tokenIds: TokenIds): string {
    this.numTokens += tokenIds.length;
    const { decoder } = this.#options;
    if (decoder.silent) return '';
    let said = '';
    for (const tokenId of tokenIds) said += decoder.push(tokenId);
    return said;
  }

  /** The part of the text held back that belongs to the answer. */
  end(): string {
    if (this.stoppedBy !== null) return '';
    const rest = this.#options.decoder.end();
    if (this.#options.stop.length === 0) return rest;
    this.#held += rest;
    return this.#search(true);
  }

  /** After a stop string: how many leading tokens decode to exactly the answer; null if no number does. */
  get keptTokens(): number | null {
    if (this.#cut === 0) return 0;
    const index = this.#ends.indexOf(this.#cut);
    return index < 0 ? null : index + 1;
  }

  #search(atEnd: boolean): string {
    // As in vLLM: if several stop strings are complete, the first one in the request's list wins.
    for (const stop of this.#options.stop) {
      const at = this.#held.indexOf(stop, Math.max(0, this.#tooEarly - this.#given - stop.length + 1));
      if (at < 0) continue;
      this.stoppedBy = stop;
      const length = at + (this.#options.includeStop ? stop.length : 0);
      this.#cut = this.#given + length;
      return this.#give(length);
    }
    return this.#give(atEnd ? this.#held.length : this.#held.length - this.#possibleStart());
  }

  /** Characters at the end that may be the start of a stop string. */
  #possibleStart(): number {
    for (let length = Math.min(this.#longest - 1, this.#held.length); length > 0; length--) {
      const tail = this.#held.slice(-length);
      if (this.#options.stop.some((stop) => stop.startsWith(tail))) return length;
    }
    return 0;
  }

  #give(length: number): string {
    const text = this.#held.slice(0, length);
    this.#held = this.#held.slice(length);
    this.#given += length;
    return text;
  }
}
