/** A real store in the fleet view: each look asks for the changes since the previous one. */
import { expect, test } from 'vitest';
import { StoreSnapshots } from '../../demo/src/fleet/real/store-snapshots.ts';
import { BlockNews, type StoreCell } from '../../src/store/block-news.ts';
import type { StoreStats } from '../../src/store/stats.ts';

test('looks follow the cells of a store, even if another reader looks in between', async () => {
  const news = new BlockNews();
  const asked: number[] = [];
  let memory: StoreCell[] = [
    { id: 1, key: 'a', state: 'ready' },
    { id: 3, key: 'b', state: 'coming' },
  ];
  const counters = { lookups: 5, hits: 4, evicted: 2 };
  const blocks = (since: number) => ({ ...news.news(since, memory, null), queues: null });
  const snapshots = new StoreSnapshots({
    storeBlocks: async (since) => {
      asked.push(since);
      return blocks(since);
    },
    storeStats: async () => ({ slots: 4, blocks: memory.length, counters }) as unknown as StoreStats,
  });
  const first = await snapshots.take();
  expect(first).toMatchObject({ slots: 4, blocks: 2, lookups: 5, hits: 4, evicted: 2, tiers: [] });
  const shares = (look: typeof first) => [[...look!.pool.cached], [...look!.pool.used]];
  expect(shares(first)).toEqual([
    [255, 0, 0, 0],
    [0, 0, 255, 0],
  ]);
  memory = [
    { id: 2, key: 'c', state: 'read' },
    { id: 3, key: 'b', state: 'ready' },
  ];
  const second = [
    [0, 0, 255, 0],
    [0, 255, 0, 0],
  ];
  expect(shares(await snapshots.take())).toEqual(second);
  expect(asked).toEqual([0, 1]);
  // The store then reports everything again.
  blocks(0);
  expect(shares(await snapshots.take())).toEqual(second);
});

test('a look without a store is null', async () => {
  const snapshots = new StoreSnapshots({ storeBlocks: async () => null, storeStats: async () => null });
  expect(await snapshots.take()).toBeNull();
});
