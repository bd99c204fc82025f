/** Lets callers wait for blocks that are being written into a store's memory. */
import type { BlockCatalog } from './catalog.ts';
import type { PrefixQuery } from './held-prefix.ts';
import { type StoreKey, storeKey } from './keys.ts';

export class Arrivals {
  readonly #catalog: Pick<BlockCatalog, 'state'>;
  readonly #waiting = new Map<StoreKey, (() => void)[]>();

  constructor(catalog: Pick<BlockCatalog, 'state'>) {
    this.#catalog = catalog;
  }

  /** Must be called when a block is no longer 'coming', whether it arrived or not. */
  ended(key: StoreKey): void {
    for (const resolve of this.#waiting.get(key) ?? []) resolve();
    this.#waiting.delete(key);
  }

  /** Waits until the block is no longer 'coming'; resolves to whether it is there. */
  async of(key: StoreKey): Promise<boolean> {
    while (this.#catalog.state(key) === 'coming') {
      await new Promise<void>((resolve) => {
        const waiting = this.#waiting.get(key);
        if (waiting) waiting.push(resolve);
        else this.#waiting.set(key, [resolve]);
      });
    }
    return this.#catalog.state(key) === 'ready';
  }

  /** Waits for a prefix's blocks: those of full groups up to the first that is missing, then those of windowed groups. */
  async ofPrefix({ hashes, groups }: Pick<PrefixQuery, 'hashes' | 'groups'>): Promise<void> {
    const [full, windowed] = [true, false].map((isFull) =>
      [...groups.keys()].filter((group) => (groups[group]!.kind === 'full') === isFull),
    ) as [number[], number[]];
    let length = 0;
    for (; length < hashes.length; length++) {
      const there = await Promise.all(full.map((group) => this.of(storeKey(hashes[length]!, group))));
      if (there.includes(false)) break;
    }
    for (const group of windowed)
      for (const hash of hashes.slice(0, length)) await this.of(storeKey(hash, group));
  }
}
