import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockPool } from '../../src/engine/block-pool.ts';
import { FreeQueue } from '../../src/engine/free-queue.ts';
import { InternalError } from '../../src/errors.ts';

describe('free queue', () => {
  it('keeps the order in which blocks were appended, also after a removal from the middle', () => {
    const queue = new FreeQueue(6);
    for (const id of [3, 1, 5, 2]) queue.append(id);
    queue.remove(5);
    expect(queue.toArray()).toEqual([3, 1, 2]);
    expect(queue.shift()).toBe(3);
    queue.append(3);
    expect(queue.toArray()).toEqual([1, 2, 3]);
  });

  it('behaves like an array under random appends, removals and shifts', () => {
    const operation = fc.tuple(fc.constantFrom('append', 'remove', 'shift'), fc.nat(9));
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60, size: 'max' }), (operations) => {
        const queue = new FreeQueue(10);
        const model: number[] = [];
        for (const [kind, id] of operations) {
          const has = model.includes(id);
          if (kind === 'append' && !has) {
            queue.append(id);
            model.push(id);
          } else if (kind === 'remove' && has) {
            queue.remove(id);
            model.splice(model.indexOf(id), 1);
          } else if (kind === 'shift') {
            expect(queue.shift()).toBe(model.shift() ?? null);
          }
          expect(queue.toArray()).toEqual(model);
          expect(queue.size).toBe(model.length);
        }
      }),
    );
  });
});

describe('block pool', () => {
  it('allocates ids in order from 1, never the null block, and throws if too few are free', () => {
    const pool = new BlockPool(5);
    expect(pool.numUsable).toBe(4);
    expect(pool.allocate(3)).toEqual([1, 2, 3]);
    expect(pool.numFree).toBe(1);
    expect(() => pool.allocate(2)).toThrow(InternalError);
  });

  it('frees blocks in reverse order, so that the tail of a chain is reused before its head', () => {
    const pool = new BlockPool(5);
    pool.free(pool.allocate(3));
    expect(pool.allocate(4)).toEqual([4, 3, 2, 1]);
  });

  it('lets a freed block be hit until it is allocated again (lazy eviction)', () => {
    const removed: string[] = [];
    const pool = new BlockPool(4);
    pool.onRemoved = (hash) => removed.push(hash);
    const [a, b] = pool.allocate(2) as [number, number];
    pool.cache(a, 'A', 0);
    pool.cache(b, 'B', 0);
    pool.free([a, b]);
    expect(pool.getCached('A', 0)).toBe(a);
    pool.touch([a]);
    expect(pool.numFree).toBe(2);
    expect(pool.allocate(2)).toEqual([3, b]);
    expect(removed).toEqual(['B']);
    expect(pool.getCached('B', 0)).toBeNull();
    expect(pool.getCached('A', 0)).toBe(a);
  });

  it('returns the oldest block of a hash, and reports the hash as removed only with its last block', () => {
    const removed: string[] = [];
    const pool = new BlockPool(3);
    pool.onRemoved = (hash) => removed.push(hash);
    const [a, b] = pool.allocate(2) as [number, number];
    pool.cache(a, 'A', 0);
    pool.cache(b, 'A', 0);
    expect(pool.getCached('A', 0)).toBe(a);
    pool.evict(a);
    expect(pool.getCached('A', 0)).toBe(b);
    expect(removed).toEqual([]);
    pool.evict(b);
    expect(removed).toEqual(['A']);
  });

  it('counts references: a shared block becomes free when its last user frees it', () => {
    const pool = new BlockPool(3);
    const ids = pool.allocate(1);
    pool.touch(ids);
    pool.free(ids);
    expect(pool.numFree).toBe(1);
    pool.free(ids);
    expect(pool.numFree).toBe(2);
    expect(() => pool.free(ids)).toThrow(/freed more often/);
  });

  it('detects block tables that disagree with its reference counts', () => {
    const pool = new BlockPool(4);
    pool.allocate(2);
    pool.checkIntegrity(
      new Map([
        [1, 1],
        [2, 1],
      ]),
    );
    expect(() => pool.checkIntegrity(new Map([[1, 1]]))).toThrow(/block 2 counts 1 references/);
    expect(() =>
      pool.checkIntegrity(
        new Map([
          [1, 2],
          [2, 1],
        ]),
      ),
    ).toThrow(InternalError);
  });

  it('keeps equal hashes of different groups apart, but all free blocks in one queue', () => {
    const removed: [string, number][] = [];
    const pool = new BlockPool(4);
    pool.onRemoved = (hash, group) => removed.push([hash, group]);
    const [a, b] = pool.allocate(2) as [number, number];
    pool.cache(a, 'A', 0);
    pool.cache(b, 'A', 1);
    expect([pool.getCached('A', 0), pool.getCached('A', 1)]).toEqual([a, b]);
    expect(() => pool.cache(a, 'A', 1)).toThrow(/second hash/);
    pool.free([a, b]);
    pool.checkIntegrity(new Map());
    // b was freed before a, so it is allocated first, whichever group asks.
    expect(pool.allocate(2)).toEqual([3, b]);
    expect(removed).toEqual([['A', 1]]);
    expect([pool.getCached('A', 0), pool.getCached('A', 1)]).toEqual([a, null]);
  });
});
