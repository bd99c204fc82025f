/** What a store reports of its tiers: in batches, in order, and only while somebody listens. */
import { expect, it } from 'vitest';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { StoreReport } from '../../src/store/report.ts';

function reported() {
  const told: CacheEvent[][] = [];
  const tellees: (number | null)[] = [];
  const report = new StoreReport(16, (events, to) => {
    told.push(events);
    tellees.push(to);
  });
  return { told, tellees, report };
}

const short = (events: readonly CacheEvent[]) =>
  events.map((event) =>
    event.kind === 'cleared' ? 'cleared' : `${event.kind} ${event.medium} ${event.blockHashes}`,
  );

it('a store reports nothing until it is wanted, and then first the blocks that are there', async () => {
  const { told, report } = reported();
  report.changedIn('CPU')('stored', 'a');
  await null;
  expect(told).toEqual([]);
  report.begin(1, [
    ['CPU', ['a', 'b']],
    ['DISK', []],
  ]);
  await null;
  expect(told.map(short)).toEqual([['stored CPU a,b']]);
  report.changedIn('CPU')('removed', 'a');
  report.stop();
  await null;
  expect(told).toHaveLength(1);
});

it('a store sends a new follower what is there, after the changes before it and ahead of those that follow', async () => {
  const { told, tellees, report } = reported();
  report.begin(1, []);
  report.changedIn('CPU')('stored', 'a');
  report.begin(2, [['CPU', ['a']]]);
  report.changedIn('CPU')('stored', 'b');
  await null;
  expect(told.map(short)).toEqual([[], ['stored CPU a'], ['stored CPU a'], ['stored CPU b']]);
  expect(tellees).toEqual([1, null, 2, null]);
});

it('a store puts simultaneous changes into one batch, with one event for neighbours of the same kind', async () => {
  const { told, report } = reported();
  report.begin(1, []);
  const [memory, folder] = [report.changedIn('CPU'), report.changedIn('DISK')];
  memory('stored', 'a');
  memory('stored', 'b');
  folder('stored', 'a');
  memory('removed', 'a');
  await null;
  expect(told.map(short)).toEqual([[], ['stored CPU a,b', 'stored DISK a', 'removed CPU a']]);
  expect(told[1]![0]).toEqual({
    ...{ kind: 'stored', group: 0, blockHashes: ['a', 'b'], parentBlockHash: null, tokenIds: [] },
    ...{ blockSize: 16, medium: 'CPU' },
  });
});

it('the events of a catalog add up to its contents, also after evictions, losses and a clear', () => {
  const there = new Set<string>();
  const catalog = new BlockCatalog({
    ...{ slots: 4, eviction: 'lru' },
    onChange(kind, key) {
      expect(there.has(key)).toBe(kind === 'removed');
      if (kind === 'stored') there.add(key);
      else there.delete(key);
    },
  });
  for (const [i, key] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) {
    catalog.prepareStore(key);
    catalog.completeStore(key, i !== 2);
  }
  expect([...there].toSorted()).toEqual([...catalog.ready()].map(([key]) => key).toSorted());
  expect(there.has('c')).toBe(false);
  expect(there.size).toBe(4);
  catalog.clear();
  expect(there.size).toBe(0);
});
