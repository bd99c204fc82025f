/**
 * A 53-bit number for each prefix whose length is a multiple of `every`, and for the whole list: equal numbers mean
 * equal prefixes.
 */
export function prefixHashes(ids: readonly number[], every: number): number[] {
  const hashes: number[] = [];
  let [high, low] = [0x243f6a88, 0x85a308d3];
  ids.forEach((id, place) => {
    const word = Math.imul(id, 0x9e3779b1) ^ Math.imul(Math.floor(id / 2 ** 32), 0x85ebca6b);
    high = scramble(high ^ word);
    low = scramble(Math.imul(low, 0x01000193) + word + high);
    const atEnd = (place + 1) % every === 0 || place === ids.length - 1;
    if (atEnd) hashes.push((high >>> 11) * 2 ** 32 + (low >>> 0));
  });
  return hashes;
}

function scramble(word: number): number {
  let x = Math.imul(word ^ (word >>> 15), 0x2c1b3c6d);
  x = Math.imul(x ^ (x >>> 12), 0x297a2d39);
  return x ^ (x >>> 15);
}
