/** A bijective mixer of 32-bit integers, with a signed result ("lowbias32" by Chris Wellons, public domain). */
export function mix(x: number): number {
  let h = x ^ (x >>> 16);
  h = Math.imul(h, 0x21f0aaad);
  h ^= h >>> 15;
  h = Math.imul(h, 0x735a2d97);
  return h ^ (h >>> 15);
}
