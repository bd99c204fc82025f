/** Which keys stay and which go: an eviction policy keeps keys alone, each of weight 1, and no more of them than its capacity. */

/** A block's hash, or whatever names what is kept. */
export type Key = string;

export interface EvictionDeps {
  /** Keys, at least 1. */
  capacity: number;
  /** Whether a key may go now: one that is being read or written may not. Absent: all may. */
  mayGo?: (key: Key) => boolean;
  /** Told of a key that had to go, after it went. */
  onEvicted?: (key: Key) => void;
  /** Told, once for each stay, of a key that was found worth keeping: it was used again, or came again soon after it left. */
  onHot?: (key: Key) => void;
}

export interface EvictionPolicy {
  readonly size: number;
  /** Changes nothing. */
  has(key: Key): boolean;
  /** The key was used. No-op for one that is not there. */
  touch(key: Key): void;
  /** A text goes on after it: it is as new as what follows, where that counts. Not one use more. No-op for one that is not there. */
  renew(key: Key): void;
  /**
   * Takes the key in; one that is there already is put anew. False, with the key not taken in, when none may go for it.
   * `parent`: the key before it in its text, without which it is of no use: who goes by the time of use lets it go first.
   */
  put(key: Key, parent?: Key | null): boolean;
  /** Forgets the key; it is told to nobody. */
  remove(key: Key): void;
  /** For pictures: how many keys each queue has, of a policy with several. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** Keys, the first to go roughly first. */
  keys(): Iterable<Key>;
}
