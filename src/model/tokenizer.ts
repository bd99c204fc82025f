/** Text to token ids and back, by a directory's tokenizer.json. */
import { Tokenizer as HuggingFaceTokenizer } from '@huggingface/tokenizers';
import type { TokenIds } from '../config/token-ids.ts';
import { ModelError } from '../errors.ts';
import type { FileSource } from '../platform/types.ts';
import { anyObject, pathOf, readJson, requireJson } from './json-file.ts';

/** Text of a growing list of tokens, piece by piece. */
export interface StreamDecoder {
  /** The text that this token completes; '' while a character is incomplete. */
  push(tokenId: number): string;
  /** What was held back. */
  end(): string;
}

export class Tokenizer {
  #tokenizer: HuggingFaceTokenizer;
  #specialIds: ReadonlySet<number>;
  /** Found when first asked for, as the next. */
  #mostCharacters: number | null = null;
  #around: ReturnType<typeof tokensAround> | null = null;
  /** Whether text is changed before it is cut into tokens. */
  readonly #normalizes: boolean;

  private constructor(tokenizer: HuggingFaceTokenizer, specialIds: ReadonlySet<number>, normalizes: boolean) {
    this.#tokenizer = tokenizer;
    this.#specialIds = specialIds;
    this.#normalizes = normalizes;
  }

  /** Reads tokenizer.json and tokenizer_config.json. Throws ModelError. `vocabSize` is the model's. */
  static async load(files: FileSource, vocabSize: number): Promise<Tokenizer> {
    const json = await requireJson(files, 'tokenizer.json', anyObject);
    const config = (await readJson(files, 'tokenizer_config.json', anyObject)) ?? {};
    const where = pathOf(files, 'tokenizer.json');
    let tokenizer: HuggingFaceTokenizer;
    try {
      tokenizer = new HuggingFaceTokenizer(json, config);
    } catch (error) {
      throw new ModelError(
        `${where} cannot be used (${(error as Error).message}): wanted a tokenizer.json of Hugging Face's tokenizers`,
        {
          cause: error,
        },
      );
    }
    const special = [...tokenizer.get_added_tokens_decoder().values()].filter((token) => token.special);
    const marks = new Set(special.map((token) => token.id));
    let size = tokenizer.model?.vocab.length ?? 0;
    // They may have no row in the model (Gemma 3's of an image): a prompt that spells one is refused.
    while (size > vocabSize && marks.has(size - 1)) size--;
    if (size > vocabSize) {
      throw new ModelError(
        `${where} has ${size} token ids but the model's vocabulary has ${vocabSize}: they are not of the same model`,
      );
    }
    const named = ['eos_token', 'bos_token', 'pad_token'].flatMap((key) => {
      const id = tokenizer.token_to_id(tokenText(config[key]) ?? '');
      return id === undefined ? [] : [id];
    });
    const specialIds = new Set([...marks, ...named]);
    return new Tokenizer(tokenizer, specialIds, json.normalizer != null);
  }

  /** No special tokens are added; those that the text spells are recognised. */
  encode(text: string): number[] {
    if (text === '') return [];
    return this.#tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /** A whole prompt as Hugging Face's tokenizers begin and end it: with a token of its beginning, for most models that have one. */
  withSpecialTokens(tokenIds: readonly number[]): readonly number[] {
    this.#around ??= tokensAround(this.#tokenizer);
    const { before, after } = this.#around;
    return before.length + after.length === 0 ? tokenIds : [...before, ...tokenIds, ...after];
  }

  /** Characters of a text that one token stands for at most: what is far too long can be refused without encoding it. */
  get mostCharacters(): number {
    this.#mostCharacters ??= longestToken(this.#tokenizer) * (this.#normalizes ? MOST_SHORTENING : 1);
    return this.#mostCharacters;
  }

  /** Ids that are no token (a model's vocabulary may be larger than its tokenizer's) give no text. */
  decode(tokenIds: readonly number[], options: { skipSpecialTokens?: boolean } = {}): string {
    const known = tokenIds.filter(
      (id) =>
        this.#tokenizer.id_to_token(id) !== undefined &&
        !(options.skipSpecialTokens && this.#specialIds.has(id)),
    );
    // What cleans up after WordPiece takes spaces away that a BPE's text has: Hugging Face too leaves it out there, whatever
    // the config says (Llama 3's says true).
    const asItIs = { skip_special_tokens: false, clean_up_tokenization_spaces: false };
    return known.length === 0 ? '' : this.#tokenizer.decode(known, asItIs);
  }

  /** As it stands in the vocabulary ('Ġthe'); '' for an id that is no token. */
  token(tokenId: number): string {
    return this.#tokenizer.id_to_token(tokenId) ?? '';
  }

  /** `after`: the prompt that the tokens go on from; absent: they begin a text. */
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

/** Special tokens that stand before and after any text: a post-processor's template, found by what it makes of one letter. */
function tokensAround(tokenizer: HuggingFaceTokenizer): { before: number[]; after: number[] } {
  const letter: number[] = tokenizer.encode('a', { add_special_tokens: false }).ids;
  const whole: number[] = tokenizer.encode('a', { add_special_tokens: true }).ids;
  const at = whole.findIndex((_, i) => letter.every((id, j) => whole[i + j] === id));
  if (letter.length === 0 || at < 0) return { before: [], after: [] };
  return { before: whole.slice(0, at), after: whole.slice(at + letter.length) };
}

/** What Unicode normalisation makes of a text has at least a third of its characters. */
const MOST_SHORTENING = 3;

function longestToken(tokenizer: HuggingFaceTokenizer): number {
  // A character that is unknown, and so one token, may be a surrogate pair.
  let longest = 2;
  for (const token of tokenizer.model?.vocab ?? []) longest = Math.max(longest, String(token).length);
  for (const token of tokenizer.get_added_tokens_decoder().values())
    longest = Math.max(longest, token.content.length);
  return longest;
}

/** No character of UTF-8 is spread over more tokens than it has bytes. */
const MAX_CHARACTER_TOKENS = 4;

/** Of a prompt, that its answer's first token is decoded with, as in vLLM. */
const TOKENS_BEFORE = 5;

/**
 * Decodes a window that begins with tokens already given out, since a token's text may depend on those before it (a first
 * word loses its space with Llama 2's tokenizer), and waits while the window ends in an incomplete character.
 */
function streamDecoder(decode: (ids: readonly number[]) => string, before: readonly number[]): StreamDecoder {
  // A character that the prompt breaks off is nobody's text.
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
      // Longer than any character: what comes before its last tokens can never become one.
      return pending.length > MAX_CHARACTER_TOKENS ? advance(pending.length - MAX_CHARACTER_TOKENS + 1) : '';
    },
    end: () => advance(pending.length),
  };
}

/** A token of tokenizer_config.json: a string, or an object with its content. */
export function tokenText(token: unknown): string | null {
  if (typeof token === 'string') return token;
  const content = (token as { content?: unknown } | null | undefined)?.content;
  return typeof content === 'string' ? content : null;
}
