import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';

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
const removed = (blockHashes: readonly string[]) => ({ kind: 'removed' as const, group: 0, blockHashes });
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

test('match() uses the events of the full group, whatever its index', () => {
  const index = new PrefixIndex(hashing, 1);
  index.update('a', [stored(hashes), { ...stored(hashes), group: 1 }]);
  // The sliding-window group evicts its blocks first.
  index.update('a', [removed([hashes[0]!])]);
  expect(matched(index)).toEqual({ a: 12 });
  index.update('a', [{ ...removed([hashes[2]!]), group: 1 }]);
  expect(matched(index)).toEqual({ a: 8 });
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

test('match() agrees with a plain search, also with more engines than a word has bits', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ engine: fc.nat(69), block: fc.nat(2), store: fc.boolean(), gone: fc.nat(40) }), {
        minLength: 20,
        maxLength: 200,
      }),
      (changes) => {
        const index = new PrefixIndex(hashing);
        const model = new Map<string, Set<string>>();
        for (const { engine, block, store, gone } of changes) {
          const id = `e${engine}`;
          const hash = hashes[block]!;
          if (gone === 0) {
            index.forget(id);
            model.delete(id);
            continue;
          }
          const has = model.get(id) ?? new Set();
          if (store) has.add(hash);
          else has.delete(hash);
          model.set(id, has);
          index.update(id, [store ? stored([hash]) : removed([hash])]);
        }
        const expected: Record<string, number> = {};
        for (const [id, has] of model) {
          const missing = hashes.findIndex((hash) => !has.has(hash));
          const blocks = missing < 0 ? hashes.length : missing;
          if (blocks > 0) expected[id] = 4 * blocks;
        }
        expect(matched(index)).toEqual(expected);
      },
    ),
  );
});
