/** Words that an answer must not hold, as sequences of tokens (vLLM's SamplingParams.update_from_tokenizer). */
import { HttpError } from './http-error.ts';
import type { TextTools } from './service.ts';

/** As they are, and after a space where that makes another token of as many. Rejects as TextTools.encode does, or with HttpError 400. */
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
      const message = `bad_words holds ${JSON.stringify(word)}, which is no token: leave it out`;
      throw new HttpError(400, message, 'bad_words');
    }
    all.push(plain);
    const spaced = await text.encode(` ${bare}`, signal);
    if (spaced[0] !== plain[0] && spaced.length === plain.length) all.push(spaced);
  }
  return all;
}
