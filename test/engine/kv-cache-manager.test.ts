/** KvCacheManager without an engine: which blocks it allocates, refuses, hashes, reports and frees. */
import { describe, expect, it } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import { leavingBlocks, neededBlocks } from '../../src/engine/block-table.ts';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { KvCacheManager } from '../../src/engine/kv-cache-manager.ts';
import {
  handedOverBlocks,
  hitBlocks,
  mostBlocks,
  seesAll,
  skippedBlocks,
} from '../../src/engine/kv-cache-spec.ts';
import { Request } from '../../src/engine/request.ts';
import { engineConfig, request, type Sizes, tokens } from './fakes.ts';

const full: KvCacheSpec = { kind: 'full' };
const sliding = (window: number): KvCacheSpec => ({ kind: 'sliding', window });

function manager(sizes: Sizes) {
  const config = engineConfig({ blockSize: 4, ...sizes });
  const hasher = createBlockHasher('seed');
  const events: CacheEvent[] = [];
  const fresh: [number, readonly number[]][] = [];
  const cache = new KvCacheManager({
    config: config.cache,
    scheduler: config.scheduler,
    hasher,
    onNewBlocks: (group, ids) => fresh.push([group, ids]),
  });
  cache.onCacheEvent = (event) => events.push(event);
  const make = (id: string, tokenIds: readonly number[]) =>
    new Request(request(id, tokenIds), 0, { hasher, blockSize: 4 });
  return { cache, make, events, fresh };
}

describe('blocks of a request', () => {
  it('are refused if the hit uses up the free blocks they need, and nothing changes then', () => {
    const { cache, make } = manager({ numBlocks: 5 });
    const first = make('a', tokens(8));
    expect(cache.allocateSlots(first, 0, 8)).toBe(true);
    cache.free(first);
    const second = make('b', [...tokens(8), ...tokens(12, 1)]);
    const hit = cache.getComputedBlocks(second);
    expect(hit.numTokens).toBe(8);
    // Two of the four free blocks are the hit: two more fit, three do not.
    expect(cache.maxBlocksNeeded(second, hit, 8)).toBe(5);
    expect(cache.allocateSlots(second, 8, 12, hit)).toBe(false);
    expect([cache.numFree, cache.hasBlocks(second)]).toEqual([4, false]);
    expect(cache.allocateSlots(second, 8, 8, hit)).toBe(true);
    expect([cache.numFree, cache.blockIds(second)]).toEqual([0, [[1, 2, 3, 4]]]);
    expect(cache.maxBlocksNeeded(second, null, 16)).toBe(1);
    cache.checkIntegrity();
  });

  it('that a hit shares with a running request are not taken from the free ones', () => {
    const { cache, make } = manager({ numBlocks: 5 });
    cache.allocateSlots(make('a', tokens(8)), 0, 8);
    const second = make('b', [...tokens(8), ...tokens(8, 1)]);
    const hit = cache.getComputedBlocks(second);
    expect([hit.numTokens, cache.numFree]).toEqual([8, 2]);
    expect(cache.maxBlocksNeeded(second, hit, 8)).toBe(2);
    expect(cache.allocateSlots(second, 8, 8, hit)).toBe(true);
  });

  it('are looked up again only after blocks have gained or lost hashes', () => {
    const { cache, make } = manager({ numBlocks: 20 });
    const waits = make('w', tokens(20));
    expect(cache.getComputedBlocks(waits).blockIds).toEqual([[]]);
    const first = make('a', tokens(8));
    cache.allocateSlots(first, 0, 8);
    const found = cache.getComputedBlocks(waits);
    expect(found.blockIds).toEqual([[1, 2]]);
    cache.free(first);
    // Free blocks keep their hashes.
    expect(cache.getComputedBlocks(waits)).toBe(found);
    cache.forgetPrefix(tokens(8), null, 4);
    expect(cache.getComputedBlocks(waits).blockIds).toEqual([[1]]);
    cache.allocateSlots(make('b', tokens(20)), 0, 20);
    waits.appendOutput(5);
    expect(cache.getComputedBlocks(waits).numTokens).toBe(20);
    cache.resetPrefixCache();
  });

  it('count towards peakUsed, also after they were freed', () => {
    const { cache, make } = manager({});
    const one = make('a', tokens(20));
    cache.allocateSlots(one, 0, 12);
    cache.allocateSlots(one, 12, 8);
    expect(cache.peakUsed).toBe(5);
    cache.free(one);
    cache.allocateSlots(make('b', tokens(4, 1)), 0, 4);
    expect(cache.peakUsed).toBe(5);
  });

  it('are an empty list per group if it has none, and freeing them reports nothing', () => {
    const { cache, make } = manager({ groups: [full, sliding(4)] });
    const one = make('a', tokens(4));
    expect(cache.blockIds(one)).toEqual([[], []]);
    const told: string[] = [];
    cache.onBlocksFreed = ({ requestId }) => told.push(requestId);
    cache.free(one);
    cache.keepForReader(one);
    expect(told).toEqual([]);
  });

  it('are reported to onNewBlocks once, when they are allocated', () => {
    const { cache, make, fresh } = manager({});
    const one = make('a', tokens(9));
    cache.allocateSlots(one, 0, 6);
    cache.allocateSlots(one, 6, 2);
    cache.allocateSlots(one, 8, 1);
    expect(fresh).toEqual([
      [0, [1, 2]],
      [0, [3]],
    ]);
  });

  it('are sufficient only if every group has the blocks that its window needs', () => {
    const { cache, make } = manager({ groups: [full, sliding(4)] });
    const one = make('a', tokens(17));
    for (let at = 0; at < 16; at += 4) {
      cache.allocateSlots(one, at, 4);
      one.advance(4);
    }
    cache.allocateSlots(one, 16, 1);
    expect(cache.sees(one, 16, 16)).toBe(true);
    expect(cache.sees(one, 8, 8)).toBe(false);
  });

  it('are freed once, as soon as the sliding window has passed them', () => {
    const { cache, make } = manager({ groups: [full, sliding(4)] });
    const told: unknown[] = [];
    cache.onBlocksFreed = (_, ids) => told.push(ids);
    const one = make('a', tokens(17));
    for (let at = 0; at < 12; at += 4) cache.allocateSlots(one, at, 4);
    expect(told).toEqual([[[], [2]]]);
    cache.allocateSlots(one, 9, 1);
    expect(told).toHaveLength(1);
    expect(cache.numUsable - cache.numFree).toBe(5);
    cache.checkIntegrity();
  });
});

describe('hashes in the prefix cache', () => {
  it('continue after a hit, and each is reported as stored once', () => {
    const { cache, make, events } = manager({});
    const first = make('a', tokens(8));
    cache.allocateSlots(first, 0, 8);
    const second = make('b', tokens(17));
    const hit = cache.getComputedBlocks(second);
    cache.allocateSlots(second, 8, 5, hit);
    cache.allocateSlots(second, 13, 4);
    const hashes = second.blockHashes();
    expect(events).toEqual([
      expect.objectContaining({
        blockHashes: hashes.slice(0, 2),
        parentBlockHash: null,
        tokenIds: tokens(8),
      }),
      expect.objectContaining({
        blockHashes: hashes.slice(2, 3),
        parentBlockHash: hashes[1],
        tokenIds: tokens(17).slice(8, 12),
      }),
      expect.objectContaining({
        kind: 'stored',
        group: 0,
        blockSize: 4,
        blockHashes: hashes.slice(3, 4),
        parentBlockHash: hashes[2],
        tokenIds: tokens(17).slice(12, 16),
      }),
    ]);
    expect(cache.lookupPrefix(tokens(40), null)).toEqual({
      numTokens: 16,
      blockIds: cache.blockIds(second).map((ids) => ids.slice(0, 4)),
      blockHashes: hashes.slice(0, 4),
    });
  });

  it('are those of the tokens that there are by then, as the output grows', () => {
    const { make } = manager({});
    const one = make('a', tokens(7));
    expect(one.blockHashes(2)).toHaveLength(1);
    one.appendOutput(5);
    expect(one.blockHashes(2)).toEqual(make('b', [...tokens(7), 5]).blockHashes());
  });

  it('that were forgotten do not come back while their request continues', () => {
    const { cache, make } = manager({});
    const one = make('a', tokens(12));
    cache.allocateSlots(one, 0, 8);
    cache.forgetPrefix(tokens(8), null, 4);
    expect(cache.lookupPrefix(tokens(8), null).numTokens).toBe(4);
    cache.allocateSlots(one, 8, 1);
    cache.allocateSlots(one, 9, 3);
    expect(cache.lookupPrefix(tokens(12), null).numTokens).toBe(4);
  });

  it('cover only blocks that have arrived and that the window keeps', () => {
    const { cache, make, events } = manager({ groups: [sliding(5)] });
    const one = make('a', tokens(12));
    cache.allocateSlots(one, 12, 0, null, true);
    expect(events).toEqual([]);
    cache.cacheBlocks(one, 12);
    const hashes = one.blockHashes();
    expect(events).toMatchObject([
      { blockHashes: hashes.slice(1), parentBlockHash: hashes[0], tokenIds: tokens(12).slice(4) },
    ]);
    const passed = manager({ groups: [sliding(1)] });
    const other = passed.make('b', tokens(13));
    passed.cache.allocateSlots(other, 12, 0, null, true);
    passed.cache.cacheBlocks(other, 12);
    expect(passed.events).toEqual([]);
    passed.cache.checkIntegrity();
  });

  it('are neither stored, found nor reported with prefix caching off', () => {
    const { cache, make, events } = manager({ prefixCaching: false });
    const one = make('a', tokens(8));
    cache.allocateSlots(one, 0, 8);
    cache.free(one);
    expect(cache.getComputedBlocks(make('b', tokens(12)))).toEqual({ blockIds: [[]], numTokens: 0 });
    expect(cache.lookupPrefix(tokens(8), null)).toEqual({ blockIds: [[]], numTokens: 0, blockHashes: [] });
    expect(events).toEqual([]);
  });

  it('are all removed by a reset, which counts as an eviction of each block', () => {
    const { cache, make, events } = manager({});
    const one = make('a', tokens(8));
    cache.allocateSlots(one, 0, 8);
    expect(cache.resetPrefixCache()).toBe(false);
    cache.free(one);
    expect(cache.resetPrefixCache()).toBe(true);
    expect(events.at(-1)).toEqual({ kind: 'cleared' });
    expect([1, 2, 3].map((id) => cache.blockState(id).evictions)).toEqual([1, 1, 0]);
    cache.allocateSlots(make('b', tokens(8)), 0, 8);
    cache.forgetPrefix(tokens(8), null, 0);
    expect(cache.lookupPrefix(tokens(8), null).numTokens).toBe(0);
    const evictions = Array.from({ length: 99 }, (_, i) => cache.blockState(i + 1).evictions);
    expect(evictions.reduce((sum, count) => sum + count, 0)).toBe(4);
  });
});

describe('a KV cache group', () => {
  it('skips the blocks that neither the next token nor a later one sees', () => {
    expect(skippedBlocks(full, 100, 4)).toBe(0);
    expect([0, 6, 7, 8, 11, 12].map((next) => skippedBlocks(sliding(5), next, 4))).toEqual([
      0, 0, 0, 1, 1, 2,
    ]);
  });

  it('limits the blocks that a hit needs, that are handed over and that a sequence takes', () => {
    expect([full, sliding(1), sliding(5), sliding(6)].map((spec) => hitBlocks(spec, 4))).toEqual([
      null,
      1,
      1,
      2,
    ]);
    expect([full, sliding(4), sliding(5)].map((spec) => handedOverBlocks(spec, 4))).toEqual([Infinity, 2, 3]);
    const config = engineConfig({
      blockSize: 4,
      groups: [full, sliding(5), sliding(6), sliding(200)],
      maxNumBatchedTokens: 8,
      maxModelLen: 160,
    });
    expect(mostBlocks(100, config)).toEqual([25, 4, 5, 25]);
    expect(mostBlocks(1000, config)).toEqual([250, 4, 5, 41]);
    expect(mostBlocks(7, config)).toEqual([2, 2, 2, 2]);
  });

  it('has what a token needs only if no block from its window on is missing', () => {
    expect(seesAll(full, [1, 2, 3], 12, 12, 4)).toBe(true);
    expect(seesAll(full, [1, 2], 12, 12, 4)).toBe(false);
    expect(seesAll(full, [1, 0, 3], 12, 12, 4)).toBe(false);
    expect(seesAll(sliding(5), [0, 0, 3], 12, 12, 4)).toBe(true);
    expect(seesAll(sliding(5), [0, 0, 3], 11, 11, 4)).toBe(false);
    // Token 4 sees only itself, and its block was never allocated.
    expect(seesAll(sliding(1), [0, 0, 3], 4, 4, 4)).toBe(false);
    expect(seesAll(sliding(1), [0, 0, 3], 8, 8, 4)).toBe(true);
  });

  it('keeps the blocks that are neither null nor skipped, and frees the leading ones', () => {
    expect(neededBlocks(full, [1, 2, 3], 12, 4)).toEqual([1, 2, 3]);
    expect(neededBlocks(sliding(5), [0, 2, 3], 4, 4)).toEqual([2, 3]);
    expect(neededBlocks(sliding(5), [1, 2, 3], 12, 4)).toEqual([3]);
    expect(neededBlocks(sliding(5), [0, 2, 3], 12, 4)).toEqual([3]);
    expect(neededBlocks(sliding(5), [0, 0], 4, 4)).toEqual([]);
    expect(leavingBlocks([1, 2, 3], 2)).toEqual([1, 2]);
    expect(leavingBlocks([0, 2, 3], 2)).toEqual([0, 2]);
    expect(leavingBlocks([0, 2, 3], 9)).toEqual([0, 2, 3]);
    expect(leavingBlocks([0, 2, 3], 1)).toEqual([]);
    expect(leavingBlocks([0, 0, 3], 2)).toEqual([]);
    expect(leavingBlocks([1], 0)).toEqual([]);
  });
});
