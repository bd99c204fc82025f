/** The eviction policies as their papers describe them, on plain arrays, newest first: slow, but easy to check by eye. */
import type { EvictionDeps, EvictionPolicy, Key } from '../../src/store/eviction/types.ts';

type Deps = EvictionDeps;

abstract class Lists implements EvictionPolicy {
  readonly deps: Deps;
  constructor(deps: Deps) {
    this.deps = deps;
  }
  abstract lists(): Key[][];
  abstract touch(key: Key): void;
  abstract put(key: Key, parent?: Key | null): boolean;
  abstract renew(key: Key): void;

  get size(): number {
    return this.lists().flat().length;
  }
  has(key: Key): boolean {
    return this.lists().some((list) => list.includes(key));
  }
  remove(key: Key): void {
    for (const list of this.lists()) drop(list, key);
  }
  keys(): Key[] {
    return this.lists().flatMap((list) => list.toReversed());
  }
  /** The oldest key of the list that may be evicted. */
  oldest(list: Key[]): Key | undefined {
    return list.findLast((key) => this.deps.mayGo?.(key) ?? true);
  }
}

const drop = (list: Key[], key: Key): boolean => {
  const at = list.indexOf(key);
  if (at >= 0) list.splice(at, 1);
  return at >= 0;
};

/** Inserts the key as the newest of the list, or as the next older than its parent. */
function place(list: Key[], key: Key, parent: Key | null): void {
  list.splice(parent === null ? 0 : list.indexOf(parent) + 1, 0, key);
}

export class LruReference extends Lists {
  list: Key[] = [];
  used = new Set<Key>();
  lists = () => [this.list];

  touch(key: Key): void {
    if (!this.has(key)) return;
    this.renew(key);
    if (!this.used.has(key)) this.deps.onHot?.(key);
    this.used.add(key);
  }

  renew(key: Key): void {
    if (drop(this.list, key)) this.list.unshift(key);
  }

  put(key: Key, parent: Key | null = null): boolean {
    if (this.has(key)) {
      this.renew(key);
      return true;
    }
    this.used.delete(key);
    if (this.list.length === this.deps.capacity) {
      const victim = this.oldest(this.list);
      if (victim === undefined) return false;
      drop(this.list, victim);
      this.deps.onEvicted?.(victim);
    }
    place(this.list, key, parent);
    return true;
  }
}

/** smallRoom and ghostRoom are in keys. over: the small queue evicts only when it has more than smallRoom keys. */
export class S3FifoReference extends Lists {
  small: Key[] = [];
  main: Key[] = [];
  ghosts: Key[] = [];
  hotness = new Map<Key, number>();
  lists = () => [this.small, this.main];

  readonly own: { smallRoom: number; ghostRoom: number; promotion: number; over: boolean };

  constructor(deps: Deps, own: S3FifoReference['own']) {
    super(deps);
    this.own = own;
  }

  touch(key: Key): void {
    if (!this.has(key)) return;
    const hotness = Math.min(3, this.hotness.get(key)! + 1);
    const counted = hotness !== this.hotness.get(key);
    this.hotness.set(key, hotness);
    if (counted && this.small.includes(key) && hotness === this.own.promotion) this.deps.onHot?.(key);
  }

  renew(): void {}

  put(key: Key): boolean {
    for (const list of this.lists()) {
      if (!drop(list, key)) continue;
      list.unshift(key);
      return true;
    }
    while (this.size >= this.deps.capacity) if (!this.evictOne()) return false;
    this.hotness.set(key, 0);
    if (drop(this.ghosts, key)) {
      this.main.unshift(key);
      this.deps.onHot?.(key);
    } else this.small.unshift(key);
    return true;
  }

  evictOne(): boolean {
    const { smallRoom, ghostRoom, promotion, over } = this.own;
    const gives = this.small.length >= smallRoom + (over ? 1 : 0) || this.main.length === 0;
    const order = gives ? [this.small, this.main] : [this.main, this.small];
    const list = order.find((one) => this.oldest(one) !== undefined);
    if (!list) return false;
    const key = this.oldest(list)!;
    const hotness = this.hotness.get(key)!;
    drop(list, key);
    if (list === this.small && hotness >= promotion) {
      this.hotness.set(key, 0);
      this.main.unshift(key);
    } else if (list === this.main && hotness > 0) {
      this.hotness.set(key, hotness - 1);
      this.main.unshift(key);
    } else {
      if (list === this.small) this.ghosts = [key, ...this.ghosts].slice(0, ghostRoom);
      this.deps.onEvicted?.(key);
    }
    return true;
  }
}

export class ArcReference extends Lists {
  t1: Key[] = [];
  t2: Key[] = [];
  b1: Key[] = [];
  b2: Key[] = [];
  p = 0;
  lists = () => [this.t1, this.t2];

  touch(key: Key): void {
    const first = drop(this.t1, key);
    if (first || drop(this.t2, key)) this.t2.unshift(key);
    if (first) this.deps.onHot?.(key);
  }

  renew(key: Key): void {
    for (const list of this.lists()) if (drop(list, key)) list.unshift(key);
  }

  put(key: Key, parent: Key | null = null): boolean {
    const c = this.deps.capacity;
    if (this.has(key)) {
      this.touch(key);
      return true;
    }
    const [inB1, inB2] = [this.b1.includes(key), this.b2.includes(key)];
    if (inB1) this.p = Math.min(c, this.p + Math.max(1, this.b2.length / this.b1.length));
    if (inB2) this.p = Math.max(0, this.p - Math.max(1, this.b1.length / this.b2.length));
    if (this.size >= c) {
      const t1 = this.t1.length;
      const recent = t1 >= 1 && ((inB2 && t1 === this.p) || t1 > this.p);
      const order = recent ? [this.t1, this.t2] : [this.t2, this.t1];
      const list = order.find((one) => this.oldest(one) !== undefined);
      if (!list) return false;
      const victim = this.oldest(list)!;
      drop(list, victim);
      (list === this.t1 ? this.b1 : this.b2).unshift(victim);
      this.deps.onEvicted?.(victim);
    }
    drop(this.b1, key);
    drop(this.b2, key);
    place(inB1 || inB2 ? this.t2 : this.t1, key, parent);
    if (inB1 || inB2) this.deps.onHot?.(key);
    this.b1 = this.b1.slice(0, Math.max(0, c - this.t1.length));
    this.b2 = this.b2.slice(0, Math.max(0, 2 * c - this.size - this.b1.length));
    return true;
  }
}
