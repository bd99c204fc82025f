/** Tokenises the words that an answer must not contain (vLLM's SamplingParams.update_from_tokenizer). */
import { HttpError } from '../http/http-error.ts';
import type { TextTools } from '../service.ts';

/**
 * Each word as written, and also after a space if that changes the first token but not the number of tokens. Rejects as
 * TextTools.encode does, or with HttpError 400 for a word without tokens.
 */
export async function badWordsTokenIds(
  words: readonly string[],
  text: Pick<TextTools, 'encode'>,
  signal: AbortSignal,
): Promise<(readonly number[])[]> {
  const all: (readonly number[])[] = [];
  for (const word of new Set(words)) {
    const bare = word.trimStart();
    const plain = await text.encode(bare, signal);
    if (plain.length === 0) {
      const message = `bad_words contains ${JSON.stringify(word)}, which has no tokens: leave it out`;
      throw new HttpError(400, message, 'bad_words');
    }
    all.push(plain);
    const spaced = await text.encode(` ${bare}`, signal);
    if (spaced[0] !== plain[0] && spaced.length === plain.length) all.push(spaced);
  }
  return all;
}
