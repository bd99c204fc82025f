/** A fast 32-bit checksum of a chunk's bytes. It finds broken copies, not forgeries. */

/** As a signed number: sums are small integers throughout, for which engines make fast code. */
const OFFSET_BASIS = 0x811c9dc5 | 0;
const PRIME = 0x01000193;

/**
 * FNV-1a over little-endian 32-bit words, every fourth of them in a row of its own, since one row alone would wait for each
 * product; then over the four sums, and over the bytes that are left. Every single flipped bit changes it.
 */
export function checksum(bytes: Uint8Array): number {
  const words = wordsOf(bytes);
  const rowsEnd = words.length - (words.length % 4);
  let a = OFFSET_BASIS;
  let b = OFFSET_BASIS;
  let c = OFFSET_BASIS;
  let d = OFFSET_BASIS;
  for (let i = 0; i < rowsEnd; i += 4) {
    a = Math.imul(a ^ words[i]!, PRIME);
    b = Math.imul(b ^ words[i + 1]!, PRIME);
    c = Math.imul(c ^ words[i + 2]!, PRIME);
    d = Math.imul(d ^ words[i + 3]!, PRIME);
  }
  const all = Math.imul(Math.imul(Math.imul(a ^ b, PRIME) ^ c, PRIME) ^ d, PRIME);
  return afterwards(all, words, rowsEnd, bytes);
}

/** The same in one row. */
export function checksumInOneRow(bytes: Uint8Array): number {
  return afterwards(OFFSET_BASIS, wordsOf(bytes), 0, bytes);
}

function afterwards(sum: number, words: Int32Array, from: number, bytes: Uint8Array): number {
  let hash = sum;
  for (let i = from; i < words.length; i++) hash = Math.imul(hash ^ words[i]!, PRIME);
  for (let i = words.length * 4; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i]!, PRIME);
  return hash >>> 0;
}

/** Whole words; copied where they lie between two of memory's: by a constructor, since slice() of Node's Buffer copies nothing. */
function wordsOf(bytes: Uint8Array): Int32Array {
  const whole = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Int32Array(whole.buffer, whole.byteOffset, bytes.length >>> 2);
}
