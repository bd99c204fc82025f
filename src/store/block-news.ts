/** Reports which block is where in a store, for display: a repeated caller gets only the changes. */
import type { StoreKey } from './keys.ts';

export interface StoreCell {
  /** From 1, like the block ids in READs. */
  id: number;
  key: StoreKey;
  state: 'coming' | 'ready' | 'read';
}

export interface StoreBlocks {
  /** Pass this to the next call. */
  revision: number;
  /** Whether this is everything, not only the changes since the given revision. */
  whole: boolean;
  memory: { changed: StoreCell[]; gone: number[] };
  /** null if the store has no folder. */
  folder: { came: StoreKey[]; gone: StoreKey[] } | null;
  /** Number of keys in each of the eviction policy's queues; null if it does not report them. */
  queues: Readonly<Record<string, number>> | null;
}

export class BlockNews {
  /** Never 0 after a call: `since` 0 asks for everything. */
  #revision = 0;
  /** State at the last call. */
  #memory = new Map<number, StoreCell>();
  #folder = new Set<StoreKey>();

  /** `since`: the revision of the last call. With 0, or if somebody else has called since, returns everything. */
  news(
    since: number,
    memory: Iterable<StoreCell>,
    folder: Iterable<StoreKey> | null,
  ): Omit<StoreBlocks, 'queues'> {
    const whole = since === 0 || since !== this.#revision;
    const before = whole ? new Map<number, StoreCell>() : this.#memory;
    const beforeBelow = whole ? new Set<StoreKey>() : this.#folder;
    this.#memory = new Map([...memory].map((cell) => [cell.id, cell]));
    this.#folder = new Set(folder ?? []);
    const isNew = ({ id, key, state }: StoreCell): boolean => {
      const last = before.get(id);
      return last?.key !== key || last.state !== state;
    };
    return {
      revision: ++this.#revision,
      whole,
      memory: {
        changed: [...this.#memory.values()].filter(isNew),
        gone: [...before.keys()].filter((id) => !this.#memory.has(id)),
      },
      folder: folder && {
        came: [...this.#folder].filter((key) => !beforeBelow.has(key)),
        gone: [...beforeBelow].filter((key) => !this.#folder.has(key)),
      },
    };
  }
}
