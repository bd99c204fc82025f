import { expect, it } from 'vitest';
import { commonPrefixLength } from '../../src/config/token-ids.ts';
import { type BlockHasher, createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';

/** Returns its arguments as text. */
const plain: BlockHasher = {
  root: 'root',
  hash: (parent, tokenIds, cacheSalt) =>
    `${parent}(${[...tokenIds].join(' ')}${cacheSalt ? ` ${cacheSalt}` : ''})`,
};

it('a block hash covers the parent hash and the block’s tokens; the first one also covers the salt', () => {
  const hashes: string[] = [];
  const sequence = { tokenIds: [1, 2, 3, 4, 5, 6, 7, 8], cacheSalt: 'salt' };
  extendHashes(hashes, sequence, { hasher: plain, blockSize: 3 }, Infinity);
  expect(hashes).toEqual(['root(1 2 3 salt)', 'root(1 2 3 salt)(4 5 6)']);
});

it('extendHashes continues the list up to the requested number of blocks, for full blocks only', () => {
  const hashes = ['known'];
  const sequence = { tokenIds: [1, 2, 3, 4, 5, 6, 7], cacheSalt: null };
  extendHashes(hashes, sequence, { hasher: plain, blockSize: 2 }, 2);
  expect(hashes).toEqual(['known', 'known(3 4)']);
  extendHashes(hashes, sequence, { hasher: plain, blockSize: 2 }, 9);
  expect(hashes).toEqual(['known', 'known(3 4)', 'known(3 4)(5 6)']);
});

it('hashes that the hasher stores are those of sequences without a salt: a salt still shares nothing', () => {
  const storing: BlockHasher = { ...plain, stored: () => ['first', 'second', 'third'] };
  const hashing = { hasher: storing, blockSize: 2 };
  const hashesOf = (cacheSalt: string | null) => {
    const hashes: string[] = [];
    extendHashes(hashes, { tokenIds: [1, 2, 3, 4, 5], cacheSalt }, hashing, 1);
    extendHashes(hashes, { tokenIds: [1, 2, 3, 4, 5], cacheSalt }, hashing, 9);
    return hashes;
  };
  expect(hashesOf(null)).toEqual(['first', 'second']);
  expect(hashesOf('salt')).toEqual(['root(1 2 salt)', 'root(1 2 salt)(3 4)']);
});

it('hashes differ by token ids of any size, order, salt and seed', () => {
  const { root, hash } = createBlockHasher('seed');
  const different = [
    hash(root, [1, 2], null),
    hash(root, [2, 1], null),
    hash(root, [1, 2 + 256], null),
    hash(root, [1, 2 + 65_536], null),
    hash(root, [1, 2 + 16_777_216], null),
    hash(root, [1, 2], ''),
    hash(root, [1, 2], 'a'),
    hash(root, [1, 2], 'b'),
    hash(root, [1, 2], 'ab'),
    hash(createBlockHasher('another').root, [1, 2], null),
  ];
  expect(new Set(different).size).toBe(different.length);
  expect(createBlockHasher('seed').hash(root, [1, 2], 'a')).toBe(different[6]);
});

it('the digest input is the parent’s digits, the ids as little-endian u32, a marker and the salt', () => {
  const seen: Uint8Array[] = [];
  const { hash } = createBlockHasher('', (bytes) => {
    seen.push(bytes);
    return new Uint8Array([255]);
  });
  expect(hash('0f', [1, 258], null)).toBe('ff');
  expect(hash('0f', [1], 'A')).toBe('ff');
  expect(seen.slice(1).map((bytes) => [...bytes])).toEqual([
    [48, 102, 1, 0, 0, 0, 2, 1, 0, 0],
    [48, 102, 1, 0, 0, 0, 1, 65],
  ]);
});

it.each([
  [[], [1], 0],
  [[1, 2, 3], [1, 2, 3], 3],
  [[1, 2, 3], [1, 2], 2],
  [[1, 2, 3], [1, 9, 3], 1],
  [[9, 2, 3], [1, 2, 3], 0],
])('%j and %j share %i leading tokens', (a, b, count) => {
  expect(commonPrefixLength(a, b)).toBe(count);
  expect(commonPrefixLength(b, a)).toBe(count);
});
