/** Which block is where in a store, for pictures: whoever looks again and again is told what has changed since. */
import type { StoreKey } from './keys.ts';

export interface StoreCell {
  /** From 1 on, as in what engines read and are read. */
  id: number;
  key: StoreKey;
  state: 'coming' | 'ready' | 'read';
}

export interface StoreBlocks {
  /** To be given at the next look. */
  revision: number;
  /** false: only what has changed since the revision that was given. */
  whole: boolean;
  memory: { changed: StoreCell[]; gone: number[] };
  /** null: there is none. */
  folder: { came: StoreKey[]; gone: StoreKey[] } | null;
  /** Keys in each of the eviction policy's queues; null: it has none. */
  queues: Readonly<Record<string, number>> | null;
}

export class BlockNews {
  /** 0 is nobody's: it asks for all. */
  #revision = 0;
  /** As they were at the last look. */
  #memory = new Map<number, StoreCell>();
  #folder = new Set<StoreKey>();

  /** `since`: the last look's revision; 0 and any other, where others look too, get all. */
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
