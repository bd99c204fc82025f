/** What is told of a store, look by look: of what has changed, and of nothing else. */
import { describe, expect, test } from 'vitest';
import { createBlockHasher, extendHashes } from '../../src/engine/block-hash.ts';
import { HASH_SEED } from '../../src/fleet/options.ts';
import { BlockViews } from '../../src/recording/block-views.ts';
import type { SessionEvent } from '../../src/recording/events.ts';
import { StoreNews } from '../../src/recording/store-news.ts';
import type { StoreBlocks, StoreCell } from '../../src/store/block-news.ts';
import type { StoreStats } from '../../src/store/stats.ts';

const BLOCK_SIZE = 2;

const stats = {
  ...{ slots: 9000, blocks: 0, inUse: 0, blockBytes: 64, folder: null, server: null },
  counters: { lookups: 0, hits: 0, stored: 0, evicted: 0 },
} as unknown as StoreStats;

function watched() {
  const views = new BlockViews(BLOCK_SIZE, (ids) => ids.join(' '));
  const news = new StoreNews(views, BLOCK_SIZE);
  /** What is told of the tier. */
  const look = (change: Partial<Pick<StoreBlocks, 'whole' | 'memory' | 'folder'>>, tier = 'memory') => {
    const nothing = { changed: [], gone: [] };
    const blocks = { revision: 1, whole: false, memory: nothing, folder: null, queues: null, ...change };
    const events = news.news({ blocks, stats, twoHopBytes: 0 }, 0);
    const told = (event: SessionEvent) => event.kind === 'store_blocks' && event.tier === tier;
    const [event, more] = events.filter(told);
    expect(more).toBeUndefined();
    return event?.kind === 'store_blocks' ? event.changed : [];
  };
  return { views, look };
}

/** How often its key was looked at is counted. */
function counted(count: number) {
  const looks = { times: 0 };
  const cells = Array.from({ length: count }, (_, i): StoreCell => {
    const cell = { id: i + 1, state: 'ready' as const };
    return Object.defineProperty(cell, 'key', {
      get: () => {
        looks.times++;
        return `block-${i}`;
      },
    }) as unknown as StoreCell;
  });
  return { cells, looks };
}

const ids = (views: readonly { id: number }[]) => views.map(({ id }) => id);

describe('the memory of a store', () => {
  test('of thousands of blocks those alone are looked at that have changed', () => {
    const { look } = watched();
    const { cells, looks } = counted(4000);
    expect(look({ whole: true, memory: { changed: cells, gone: [] } })).toHaveLength(4000);
    looks.times = 0;
    expect(look({})).toEqual([]);
    expect(looks.times).toBe(0);
    const changed: StoreCell[] = [{ id: 7, key: 'other', state: 'coming' }];
    expect(look({ memory: { changed, gone: [9] } })).toMatchObject([
      { id: 7, state: 'arriving', hash: 'other' },
      { id: 9, state: 'free' },
    ]);
    // The two that are gone.
    expect(looks.times).toBeLessThanOrEqual(4);
  });

  test('what was told without content is told again when its turn is known, in every KV cache group', () => {
    const { views, look } = watched();
    const tokenIds = [5, 6, 7, 8];
    const hashes: string[] = [];
    const hashing = { hasher: createBlockHasher(HASH_SEED), blockSize: BLOCK_SIZE };
    extendHashes(hashes, { tokenIds, cacheSalt: null }, hashing, Number.POSITIVE_INFINITY);
    const changed = [hashes[1]!, `${hashes[1]}.1`, 'nobody'].map((key, i): StoreCell => {
      return { id: i + 1, key, state: 'ready' };
    });
    const unknown = { conversation: null, text: null };
    expect(look({ memory: { changed, gone: [] } })).toMatchObject([unknown, unknown, unknown]);
    views.turnStarted('turn', 'chat', tokenIds);
    const known = { conversation: 'chat', turn: 1, text: '7 8' };
    expect(look({})).toMatchObject([
      { id: 1, ...known },
      { id: 2, ...known },
    ]);
    expect(look({})).toEqual([]);
  });

  test('a store that is told whole takes the place of what was there', () => {
    const { look } = watched();
    const cell = (id: number, key: string): StoreCell => ({ id, key, state: 'ready' });
    look({ memory: { changed: [cell(1, 'a'), cell(2, 'b'), cell(3, 'c')], gone: [] } });
    const told = look({ whole: true, memory: { changed: [cell(1, 'a'), cell(2, 'd')], gone: [] } });
    expect(told).toMatchObject([
      { id: 2, hash: 'd' },
      { id: 3, state: 'free' },
    ]);
  });
});

describe('the folder below it', () => {
  const folder = (came: string[], gone: string[] = []) => ({ folder: { came, gone } });

  test('a cell keeps its block, and one that was given up is taken by the next', () => {
    const { look } = watched();
    expect(look(folder(['a', 'b', 'c']), 'folder')).toMatchObject([
      { id: 1, hash: 'a' },
      { id: 2, hash: 'b' },
      { id: 3, hash: 'c' },
    ]);
    expect(look(folder(['d'], ['b']), 'folder')).toMatchObject([{ id: 2, hash: 'd' }]);
    expect(look(folder([], ['a']), 'folder')).toMatchObject([{ id: 1, state: 'free' }]);
    expect(look(folder([]), 'folder')).toEqual([]);
  });

  test('of more blocks than are told one by one those that came last have cells, others when there is room', () => {
    const { look } = watched();
    const names = Array.from({ length: 600 }, (_, i) => `f${i}`);
    const told = look(folder(names), 'folder');
    expect(told).toHaveLength(512);
    expect(Math.max(...ids(told))).toBe(512);
    const hashes = new Set(told.map(({ hash }) => hash));
    expect(hashes).toEqual(new Set(names.slice(88)));
    // One of those without a cell goes: nothing to be seen.
    expect(look(folder([], ['f3']), 'folder')).toEqual([]);
    // One with a cell: another block has it.
    const [next, ...none] = look(folder([], ['f599']), 'folder');
    expect(none).toEqual([]);
    expect(hashes.has(next!.hash)).toBe(false);
    expect(names).toContain(next!.hash);
    expect(next!.hash).not.toBe('f3');
  });
});
