/** Tokenises text that follows another, whose token ids are kept. */

/** Text to ids, without special tokens; by a tokeniser in this thread or in another. */
export type Encode = (text: string) => readonly number[] | Promise<readonly number[]>;

/**
 * Ids of a text that another precedes: without the space that a tokeniser may put before a text (Llama 2's does). null
 * if they depend on the text before.
 */
export async function encodeAfter(text: string, encode: Encode): Promise<readonly number[] | null> {
  // Takes that space. A newline merges with no word, and a letter with no space or newline.
  const before = /^\s/.test(text) ? 'a' : '\n';
  const ids = await encode(before + text);
  const beforeIds = await encode(before);
  return beforeIds.every((id, i) => ids[i] === id) ? ids.slice(beforeIds.length) : null;
}
