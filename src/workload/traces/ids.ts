/** Hash ids of a trace, in any number: a Set or Map of V8 holds 2^24 at most, so each of these is spread over several. */

/** A prime, since contents of blocks have multiples of 4. */
const SHARDS = 61;

const shardsOf = <T>(make: () => T): readonly T[] => Array.from({ length: SHARDS }, make);
const shardFor = <T>(shards: readonly T[], id: number): T => shards[id % SHARDS]!;

/** Ids below this are kept as bits: most traces number them from 0 on. */
const DENSE = 1 << 28;

/** A set of numbers, compact if these are small. */
export class IdSet {
  #bits = new Uint8Array(1 << 12);
  readonly #sparse = shardsOf(() => new Set<number>());

  has(id: number): boolean {
    if (id >= DENSE) return shardFor(this.#sparse, id).has(id);
    return ((this.#bits[id >>> 3] ?? 0) & (1 << (id & 7))) !== 0;
  }

  add(id: number): void {
    if (id >= DENSE) {
      shardFor(this.#sparse, id).add(id);
      return;
    }
    const byte = id >>> 3;
    if (byte >= this.#bits.length) {
      const grown = new Uint8Array(2 ** Math.ceil(Math.log2(byte + 1)));
      grown.set(this.#bits);
      this.#bits = grown;
    }
    this.#bits[byte]! |= 1 << (id & 7);
  }
}

/** New ids for ids. */
export class IdMap {
  readonly #shards = shardsOf(() => new Map<number, number>());

  get(id: number): number | undefined {
    return shardFor(this.#shards, id).get(id);
  }

  set(id: number, to: number): void {
    shardFor(this.#shards, id).set(id, to);
  }
}
