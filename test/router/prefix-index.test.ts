import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import { longestHit } from '../../src/engine/prefix-lookup.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import { someGroups } from '../engine/fakes.ts';

const hashing = { hasher: createBlockHasher('test'), blockSize: 4 };

function hashesOf(tokenIds: readonly number[], cacheSalt: string | null = null): string[] {
  const hashes: string[] = [];
  extendHashes(hashes, { tokenIds, cacheSalt }, hashing, Number.POSITIVE_INFINITY);
  return hashes;
}
const stored = (blockHashes: readonly string[], group = 0) => ({
  kind: 'stored' as const,
  group,
  blockHashes,
  parentBlockHash: null,
  tokenIds: [],
  blockSize: 4,
});
const removed = (blockHashes: readonly string[], group = 0) => ({
  kind: 'removed' as const,
  group,
  blockHashes,
});
const full: KvCacheSpec = { kind: 'full' };
/** With blocks of 4 tokens, a hit needs two. */
const windowed: KvCacheSpec = { kind: 'sliding', window: 9 };
const prompt = Array.from({ length: 14 }, (_, i) => i);
const hashes = hashesOf(prompt);
const matched = (index: PrefixIndex, salt: string | null = null) =>
  Object.fromEntries(index.match(prompt, salt));

test('match() returns each engine’s longest prefix in whole blocks', () => {
  const index = new PrefixIndex(hashing);
  index.update('a', [stored(hashes)]);
  index.update('b', [stored(hashes.slice(0, 1))]);
  index.update('c', [stored(hashesOf([9, 9, 9, 9]))]);
  expect(matched(index)).toEqual({ a: 12, b: 4 });
  expect(matched(index, 'salt')).toEqual({});
  expect([...index.match([0, 1, 2], null)]).toEqual([]);
});

test.each([
  ['first', [full, windowed]],
  ['last', [windowed, full]],
])('a match ends where the windowed group has what its window sees, with the full group %s', (_, groups) => {
  const index = new PrefixIndex(hashing, groups);
  const [all, window] = [groups.indexOf(full), groups.indexOf(windowed)];
  index.update('a', [stored(hashes, all)]);
  expect(matched(index)).toEqual({});
  index.update('a', [stored(hashes, window), removed([hashes[0]!], window)]);
  expect(matched(index)).toEqual({ a: 12 });
  // Blocks 1 and 2 are in the windowed group, 0 and 1 in the full one.
  index.update('a', [removed([hashes[2]!], all)]);
  expect(matched(index)).toEqual({});
  index.update('a', [stored([hashes[0]!], window)]);
  expect(matched(index)).toEqual({ a: 8 });
  index.update('a', [removed(hashes, all), removed(hashes, window)]);
  expect(index.size).toBe(0);
});

test('without a full group, the end of a prefix suffices', () => {
  const index = new PrefixIndex(hashing, [windowed]);
  index.update('a', [stored(hashes.slice(1))]);
  index.update('b', [stored(hashes.slice(2))]);
  index.update('c', [stored(hashes.slice(0, 1))]);
  expect(matched(index)).toEqual({ a: 12, c: 4 });
  index.update('a', [{ kind: 'cleared' }]);
  index.forget('c');
  expect(matched(index)).toEqual({});
});

test('a window that only the token after the prompt could use is no match', () => {
  const index = new PrefixIndex(hashing, [windowed]);
  index.update('a', [stored(hashes.slice(1))]);
  expect(Object.fromEntries(index.match(prompt.slice(0, 12), null))).toEqual({});
  index.update('a', [stored(hashes.slice(0, 1))]);
  expect(Object.fromEntries(index.match(prompt.slice(0, 12), null))).toEqual({ a: 8 });
});

test('a prefix ends at the first missing block, whatever follows it', () => {
  const index = new PrefixIndex(hashing);
  index.update('a', [stored(hashes), removed([hashes[1]!])]);
  expect(matched(index)).toEqual({ a: 4 });
  index.update('a', [stored([hashes[1]!])]);
  expect(matched(index)).toEqual({ a: 12 });
});

test('clearing or forgetting affects one engine only, and leaves nothing behind', () => {
  const index = new PrefixIndex(hashing);
  for (const id of ['a', 'b', 'c']) index.update(id, [stored(hashes)]);
  index.update('a', [{ kind: 'cleared' }]);
  index.forget('b');
  expect(matched(index)).toEqual({ c: 12 });
  index.update('d', [stored(hashes.slice(0, 2))]);
  expect(matched(index)).toEqual({ c: 12, d: 8 });
  index.forget('c');
  index.update('d', [removed(hashes)]);
  expect(index.size).toBe(0);
});

test('match() agrees with the engines’ own lookup, also with more engines than a word has bits', () => {
  const long = Array.from({ length: 22 }, (_, i) => i);
  const all = hashesOf(long);
  const change = fc.record({
    engine: fc.oneof(fc.nat(3), fc.nat(69)),
    group: fc.nat(2),
    from: fc.nat(4),
    to: fc.integer({ min: 1, max: 5 }),
    store: fc.boolean(),
    gone: fc.nat(40),
  });
  fc.assert(
    fc.property(
      someGroups,
      fc.array(change, { minLength: 20, maxLength: 200, size: 'max' }),
      (groups, changes) => {
        const index = new PrefixIndex(hashing, groups);
        const model = new Map<string, Set<string>[]>();
        for (const { engine, group: any, from, to, store, gone } of changes) {
          const id = `e${engine}`;
          const group = any % groups.length;
          if (gone === 0) {
            index.forget(id);
            model.delete(id);
            continue;
          }
          const has = model.get(id) ?? groups.map(() => new Set<string>());
          const some = all.slice(from, to);
          for (const hash of some) has[group]![store ? 'add' : 'delete'](hash);
          model.set(id, has);
          index.update(id, [store ? stored(some, group) : removed(some, group)]);
        }
        const expected: Record<string, number> = {};
        for (const [id, has] of model) {
          const getCached = (hash: string, group: number) => (has[group]!.has(hash) ? 1 : null);
          const blocks = longestHit(groups, all, all.length, hashing.blockSize, getCached)[0]!.length;
          if (blocks > 0) expected[id] = 4 * blocks;
        }
        expect(Object.fromEntries(index.match(long, null))).toEqual(expected);
      },
    ),
  );
});
