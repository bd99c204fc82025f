/** Store events of each poll contain the blocks that have changed, and nothing else. */
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
  /** The changed blocks reported for the tier. */
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

/** Cells that count how often their keys are read. */
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
  test('reads only changed blocks, even among thousands', () => {
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
    // The two blocks that are gone.
    expect(looks.times).toBeLessThanOrEqual(4);
  });

  test('reports blocks again once their turn is known, in every KV cache group', () => {
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

  test('is replaced when the whole store is reported', () => {
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

describe('the folder of a store', () => {
  const folder = (came: string[], gone: string[] = []) => ({ folder: { came, gone } });

  test('keeps each block in its cell, and reuses the cells of removed blocks', () => {
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

  test('shows only the last 512 blocks, and an older one when a cell becomes free', () => {
    const { look } = watched();
    const names = Array.from({ length: 600 }, (_, i) => `f${i}`);
    const told = look(folder(names), 'folder');
    expect(told).toHaveLength(512);
    expect(Math.max(...ids(told))).toBe(512);
    const hashes = new Set(told.map(({ hash }) => hash));
    expect(hashes).toEqual(new Set(names.slice(88)));
    // A block without a cell is removed: nothing is reported.
    expect(look(folder([], ['f3']), 'folder')).toEqual([]);
    // A block with a cell is removed: another block takes the cell.
    const [next, ...none] = look(folder([], ['f599']), 'folder');
    expect(none).toEqual([]);
    expect(hashes.has(next!.hash)).toBe(false);
    expect(names).toContain(next!.hash);
    expect(next!.hash).not.toBe('f3');
  });
});
