/** Converts text to token ids and back, with a directory's tokenizer.json. */
import type { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import type { TokenIds } from '../../config/token-ids.ts';
import { ModelError } from '../../errors.ts';
import type { FileSource } from '../../platform/types.ts';
import { anyObject, pathOf, readJson, requireJson } from '../architecture/json-file.ts';
import { makeTokenizer } from './hugging-face.ts';
import { encodeAfter } from './text-after.ts';
import { tokenBytes } from './token-bytes.ts';

/** Decodes a growing list of tokens incrementally. */
export interface StreamDecoder {
  /** The text that this token completes; '' while a character is incomplete. */
  push(tokenId: number): string;
  /** The text that was held back. */
  end(): string;
}

export class Tokenizer {
  #tokenizer: HuggingFaceTokenizer;
  #specialIds: ReadonlySet<number>;
  /** This and the next field are computed on first use. */
  #mostCharacters: number | null = null;
  #around: ReturnType<typeof tokensAround> | null = null;
  /** Whether text is normalised before tokenisation. */
  readonly #normalizes: boolean;

  private constructor(tokenizer: HuggingFaceTokenizer, specialIds: ReadonlySet<number>, normalizes: boolean) {
    this.#tokenizer = tokenizer;
    this.#specialIds = specialIds;
    this.#normalizes = normalizes;
  }

  /** Reads tokenizer.json and tokenizer_config.json. Throws ModelError. `vocabSize`: the model's. */
  static async load(files: FileSource, vocabSize: number): Promise<Tokenizer> {
    const json = await requireJson(files, 'tokenizer.json', anyObject);
    const config = (await readJson(files, 'tokenizer_config.json', anyObject)) ?? {};
    const where = pathOf(files, 'tokenizer.json');
    let tokenizer: HuggingFaceTokenizer;
    try {
      tokenizer = makeTokenizer(json, config);
    } catch (error) {
      throw new ModelError(
        `${where} cannot be used (${(error as Error).message}): wanted a tokenizer.json of Hugging Face's tokenizers`,
        {
          cause: error,
        },
      );
    }
    const added = [...tokenizer.get_added_tokens_decoder().values()];
    const whole = added.find((token) => token.single_word);
    if (whole) {
      throw new ModelError(
        `${where}: the added token '${whole.content}' has single_word, which is not supported: set it to false if no text contains the token within a word`,
      );
    }
    const special = added.filter((token) => token.special);
    const marks = new Set(special.map((token) => token.id));
    let size = tokenizer.model?.vocab.length ?? 0;
    // Trailing special tokens may have no row in the model (Gemma 3's image token). A prompt that spells one is
    // refused.
    while (size > vocabSize && marks.has(size - 1)) size--;
    if (size > vocabSize) {
      throw new ModelError(
        `${where} has ${size} token ids but the model's vocabulary has ${vocabSize}: the files are from different models`,
      );
    }
    const named = ['eos_token', 'bos_token', 'pad_token'].flatMap((key) => {
      const id = tokenizer.token_to_id(tokenText(config[key]) ?? '');
      return id === undefined ? [] : [id];
    });
    const specialIds = new Set([...marks, ...named]);
    return new Tokenizer(tokenizer, specialIds, json.normalizer != null);
  }

  /** Adds no special tokens, but recognises those that the text spells. */
  encode(text: string): number[] {
    if (text === '') return [];
    return this.#tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /** For text that continues a text in the same conversation. */
  readonly encodeAfter = encodeAfter;

  /**
   * Adds the special tokens that Hugging Face's tokenizers put around a prompt: for most models that have one, a
   * beginning-of-text token.
   */
  withSpecialTokens(tokenIds: readonly number[]): readonly number[] {
    this.#around ??= tokensAround(this.#tokenizer);
    const { before, after } = this.#around;
    return before.length + after.length === 0 ? tokenIds : [...before, ...tokenIds, ...after];
  }

  /**
   * Most characters of text that one token can stand for. A far too long text can then be refused without encoding it.
   */
  get mostCharacters(): number {
    this.#mostCharacters ??= longestToken(this.#tokenizer) * (this.#normalizes ? MOST_SHORTENING : 1);
    return this.#mostCharacters;
  }

  /** Ids without a token give no text: a model's vocabulary may be larger than its tokeniser's. */
  decode(tokenIds: readonly number[], options: { skipSpecialTokens?: boolean } = {}): string {
    const known = tokenIds.filter(
      (id) =>
        this.#tokenizer.id_to_token(id) !== undefined &&
        !(options.skipSpecialTokens && this.#specialIds.has(id)),
    );
    // The clean-up is meant for WordPiece and would remove spaces from BPE text. Hugging Face skips it for BPE too,
    // whatever the config says (Llama 3's says true).
    const asItIs = { skip_special_tokens: false, clean_up_tokenization_spaces: false };
    return known.length === 0 ? '' : this.#tokenizer.decode(known, asItIs);
  }

  /** The token as written in the vocabulary ('Ġthe'); '' for an id without a token. */
  token(tokenId: number): string {
    return this.#tokenizer.id_to_token(tokenId) ?? '';
  }

  /** Also of a token that is part of a character; null if unknown. */
  bytes(tokenId: number): number[] | null {
    return tokenBytes(this.token(tokenId), this.decode([tokenId]));
  }

  /** `after`: the prompt that the tokens continue; absent: they begin a text. */
  streamDecoder(options: { skipSpecialTokens?: boolean; after?: TokenIds } = {}): StreamDecoder {
    const { skipSpecialTokens = false, after = [] } = options;
    const last = [...after.slice(Math.max(0, after.length - TOKENS_BEFORE))].filter(
      (id) => !(skipSpecialTokens && this.#specialIds.has(id)),
    );
    const decoder = streamDecoder((ids) => this.decode(ids), last);
    if (!skipSpecialTokens) return decoder;
    return {
      push: (tokenId) => (this.#specialIds.has(tokenId) ? '' : decoder.push(tokenId)),
      end: decoder.end,
    };
  }
}

/** Special tokens that the post-processor puts before and after any text, found by encoding one letter. */
function tokensAround(tokenizer: HuggingFaceTokenizer): { before: number[]; after: number[] } {
  const letter: number[] = tokenizer.encode('a', { add_special_tokens: false }).ids;
  const whole: number[] = tokenizer.encode('a', { add_special_tokens: true }).ids;
  const at = whole.findIndex((_, i) => letter.every((id, j) => whole[i + j] === id));
  if (letter.length === 0 || at < 0) return { before: [], after: [] };
  return { before: whole.slice(0, at), after: whole.slice(at + letter.length) };
}

/** Unicode normalisation leaves at least a third of a text's characters. */
const MOST_SHORTENING = 3;

function longestToken(tokenizer: HuggingFaceTokenizer): number {
  // An unknown character is one token and may be a surrogate pair.
  let longest = 2;
  for (const token of tokenizer.model?.vocab ?? []) longest = Math.max(longest, String(token).length);
  for (const token of tokenizer.get_added_tokens_decoder().values())
    longest = Math.max(longest, token.content.length);
  return longest;
}

/** A UTF-8 character spans at most as many tokens as it has bytes. */
const MAX_CHARACTER_TOKENS = 4;

/** Prompt tokens that an answer's first token is decoded with, as in vLLM. */
const TOKENS_BEFORE = 5;

/**
 * Decodes a window that starts with tokens already emitted, because a token's text may depend on those before it (Llama
 * 2's tokeniser drops the space of a first word). Holds text back while the window ends with an incomplete character.
 */
function streamDecoder(decode: (ids: readonly number[]) => string, before: readonly number[]): StreamDecoder {
  // If the prompt ends with an incomplete character, decode without it.
  let given = decode(before).endsWith('\ufffd') ? [] : before;
  let pending: number[] = [];
  const advance = (count: number): string => {
    const now = pending.slice(0, count);
    const text = decode([...given, ...now]).slice(decode(given).length);
    given = now;
    pending = pending.slice(count);
    return text;
  };
  return {
    push(tokenId) {
      pending.push(tokenId);
      if (!decode([...given, ...pending]).endsWith('\ufffd')) return advance(pending.length);
      // Longer than any character: the tokens before the last few can no longer complete one.
      return pending.length > MAX_CHARACTER_TOKENS ? advance(pending.length - MAX_CHARACTER_TOKENS + 1) : '';
    },
    end: () => advance(pending.length),
  };
}

/** A token in tokenizer_config.json: a string, or an object with `content`. */
export function tokenText(token: unknown): string | null {
  if (typeof token === 'string') return token;
  const content = (token as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : null;
}
