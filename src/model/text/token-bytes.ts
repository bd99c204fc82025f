/** The UTF-8 bytes of a vocabulary's tokens, also of those that are only a part of a character. */

/** Bytes that byte-level vocabularies write as the character of the same number; the others follow from 256 on (GPT-2). */
const isShown = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad && byte <= 0xff);

const byteOf: ReadonlyMap<string, number> = (() => {
  const all = [...Array(256).keys()];
  const others = all.filter((byte) => !isShown(byte));
  const character = (byte: number) => String.fromCodePoint(isShown(byte) ? byte : 256 + others.indexOf(byte));
  return new Map(all.map((byte) => [character(byte), byte]));
})();

const utf8 = new TextEncoder();

/**
 * `written`: the token as the vocabulary has it; `text`: decoded alone, with U+FFFD for parts of characters. null if they do
 * not tell.
 */
export function tokenBytes(written: string, text: string): number[] | null {
  if (!text.includes('\ufffd') || written.includes('\ufffd')) return [...utf8.encode(text)];
  const fallback = /^<0x([0-9A-F]{2})>$/i.exec(written);
  if (fallback) return [Number.parseInt(fallback[1]!, 16)];
  const bytes = [...written].map((character) => byteOf.get(character));
  return bytes.every((byte) => byte !== undefined) ? bytes : null;
}
