/** A fast 32-bit checksum of a chunk's bytes. It finds broken copies, not forgeries. */

const OFFSET_BASIS = 0x811c9dc5;
const PRIME = 0x01000193;

/** FNV-1a over little-endian 32-bit words, then over the bytes that are left. Every single flipped bit changes it. */
export function checksum(bytes: Uint8Array): number {
  const words = bytes.length >>> 2;
  let hash = OFFSET_BASIS;
  if (bytes.byteOffset % 4 === 0) {
    const view = new Uint32Array(bytes.buffer, bytes.byteOffset, words);
    for (let i = 0; i < words; i++) hash = Math.imul(hash ^ view[i]!, PRIME);
  } else {
    const view = new DataView(bytes.buffer, bytes.byteOffset, words * 4);
    for (let i = 0; i < words; i++) hash = Math.imul(hash ^ view.getUint32(i * 4, true), PRIME);
  }
  for (let i = words * 4; i < bytes.length; i++) hash = Math.imul(hash ^ bytes[i]!, PRIME);
  return hash >>> 0;
}
