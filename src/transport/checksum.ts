/** A fast 32-bit checksum of a chunk's bytes. Detects broken copies; it is not cryptographic. */

/** Signed, so that all intermediate values stay 32-bit integers, which JavaScript engines handle fast. */
const OFFSET_BASIS = 0x811c9dc5 | 0;
const PRIME = 0x01000193;

/**
 * FNV-1a over little-endian 32-bit words in four interleaved lanes, then over the four sums and the remaining words and bytes.
 * A single lane would be bound by the latency of the multiplication. Any single flipped bit changes the result.
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

/** The one-lane variant, with different results. */
export function checksumInOneRow(bytes: Uint8Array): number {
  return afterwards(OFFSET_BASIS, wordsOf(bytes), 0, bytes);
}

function afterwards(sum: number, words: Int32Array, from: number, bytes: Uint8Array): number {
  let hash = sum;
  for (let i = from; i < words.length; i++) hash = Math.imul(hash ^ words[i]!, PRIME);
  for (let i = words.length * 4; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i]!, PRIME);
  return hash >>> 0;
}

/** A view of the whole words, or of a copy if misaligned. (A constructor copies; slice() of Node's Buffer does not.) */
function wordsOf(bytes: Uint8Array): Int32Array {
  const whole = bytes.byteOffset % 4 === 0 ? bytes : new Uint8Array(bytes);
  return new Int32Array(whole.buffer, whole.byteOffset, bytes.length >>> 2);
}
