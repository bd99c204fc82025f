/** The interface of eviction policies. A policy manages only keys, each of weight 1, and at most `capacity` of them. */

/** A block's key (keys.ts), or any other unique name. */
export type Key = string;

export interface EvictionDeps {
  /** Maximum number of keys, at least 1. */
  capacity: number;
  /** Whether a key may be evicted now: not while it is being read or written. Default: always. */
  mayGo?: (key: Key) => boolean;
  /** Called after a key has been evicted. */
  onEvicted?: (key: Key) => void;
  /** Called, once per stay, when a key proves worth keeping: it was used again, or returned soon after its eviction. */
  onHot?: (key: Key) => void;
}

export interface EvictionPolicy {
  readonly size: number;
  /** Changes nothing. */
  has(key: Key): boolean;
  /** Records a use of the key. No-op if absent. */
  touch(key: Key): void;
  /** Makes the key as recent as a new one, since its sequence continues. Does not count as a use. No-op if absent. */
  renew(key: Key): void;
  /**
   * Adds the key; if present, makes it recent. Returns false, without adding it, if no key may be evicted for it. `parent`: the
   * key before it in its sequence. It is useless without its parent, so recency-based policies evict it before the parent.
   */
  put(key: Key, parent?: Key | null): boolean;
  /** Removes the key without calling onEvicted. */
  remove(key: Key): void;
  /** Number of keys in each queue, for display. Only for policies with several queues. */
  readonly sizes?: Readonly<Record<string, number>>;
  /** All keys, roughly in order of eviction. */
  keys(): Iterable<Key>;
}
