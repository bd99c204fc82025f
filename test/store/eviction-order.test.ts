/** A text is useless without its beginning, so a store evicts its end first, in whatever order the text arrived. */
import { expect, it } from 'vitest';
import type { Ingestion } from '../../src/config/store.ts';
import type { BlockHash } from '../../src/engine/block-hash.ts';
import type { StoreFolder } from '../../src/platform/types.ts';
import { fileBytesOf } from '../../src/store/block-file.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { FolderTier } from '../../src/store/folder-tier.ts';
import { LowerTiers } from '../../src/store/lower-tiers.ts';
import { StoreService } from '../../src/store/service.ts';
import type { ServingTransport, TransportHandlers } from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';

const BLOCK = 16;
const textOf = (name: string, length: number): BlockHash[] =>
  Array.from({ length }, (_, i) => `${name}${i}`.padEnd(64, '0'));

/** A store with this many blocks in memory and, unless folderBlocks is null, a folder tier with room for that many. */
async function start(slots: number, folderBlocks: number | null = null, ingestion: Ingestion = 'ALL') {
  const handlers: Partial<TransportHandlers> = {};
  const transport = {
    identity: { blockSize: 16, blockBytes: [BLOCK] },
    setHandlers: (given: Partial<TransportHandlers>) => Object.assign(handlers, given),
    notify() {},
    read: async () => ({ outcome: 'done' }),
  };
  const clock = new TestClock();
  const files = new Map<string, Uint8Array>();
  const folder: StoreFolder = {
    location: 'memory',
    isEmpty: async () => files.size === 0,
    list: async () => [],
    read: async (name) => files.get(name) ?? null,
    write: async (name, bytes) => void files.set(name, bytes),
    remove: async (name) => void files.delete(name),
  };
  const tier =
    folderBlocks === null
      ? null
      : await FolderTier.open({
          ...{ folder, namespace: '0'.repeat(64), blockBytes: BLOCK, ttlMs: null, clock },
          quotaBytes: folderBlocks * fileBytesOf(BLOCK),
          onTrouble: (message) => expect.fail(message),
        });
  const memory = { parts: () => [new Uint8Array(BLOCK)] };
  const lower = tier && new LowerTiers([{ tier, ingestion }], memory, clock);
  const catalog = new BlockCatalog({ slots, eviction: 'lru', ...lower?.listeners });
  const service = new StoreService({
    transport: transport as unknown as ServingTransport,
    ...{ catalog, clock, lower },
  });
  service.addEngine({ engineId: 'p', host: '', port: 0 });
  let number = 0;
  return {
    ...{ tier, lower, catalog },
    /** Offers one chunk, as an engine does that computes a prompt in chunks. */
    async offer(hashes: readonly BlockHash[], parent?: BlockHash) {
      number++;
      const offer = { kind: 'store_offer', offerId: `p/${number}`, number, hashes } as const;
      handlers.onNotification!('p', parent ? { ...offer, parent } : offer);
      await settled();
      await tier?.flush();
    },
    async lookUp(hashes: readonly BlockHash[]) {
      const leaseId = `p/${++number}`;
      handlers.onNotification!('p', { kind: 'store_lookup', leaseId, hashes, wait: false });
      await settled();
      await tier?.flush();
      handlers.onNotification!('p', { kind: 'store_release', leaseId });
    },
    inMemory: (hashes: readonly BlockHash[]) => hashes.map((hash) => catalog.state(hash) === 'ready'),
    inFolder: (hashes: readonly BlockHash[]) => hashes.map((hash) => tier!.has(hash)),
  };
}

it('a text that was offered in pieces is evicted from its end', async () => {
  const store = await start(7);
  const [text, other] = [textOf('a', 5), textOf('b', 4)];
  await store.offer(text.slice(0, 2));
  await store.offer(text.slice(2, 4), text[1]);
  await store.offer(text.slice(4), text[3]);
  await store.offer(other);
  expect(store.inMemory(text)).toEqual([true, true, true, false, false]);
});

it('a text that is continued later counts as new as its continuation', async () => {
  const store = await start(8);
  const [text, other, last] = [textOf('a', 4), textOf('b', 4), textOf('c', 3)];
  await store.offer(text.slice(0, 3));
  await store.offer(other);
  await store.offer(text.slice(3), text[2]);
  await store.offer(last);
  expect(store.inMemory(text)).toEqual([true, true, true, true]);
  expect(store.inMemory(other)).toEqual([true, false, false, false]);
});

it('a text longer than memory keeps its beginning in memory', async () => {
  const store = await start(4);
  const text = textOf('a', 6);
  await store.offer(text.slice(0, 3));
  await store.offer(text.slice(3), text[2]);
  expect(store.inMemory(text)).toEqual([true, true, true, true, false, false]);
});

it('a text longer than the folder keeps its beginning there and replaces older texts', async () => {
  const { inFolder, offer, tier } = await start(16, 4);
  const [text, other] = [textOf('a', 7), textOf('b', 2)];
  await offer(other);
  await offer(text.slice(0, 3));
  await offer(text.slice(3, 5), text[2]);
  await offer(text.slice(5), text[4]);
  expect(inFolder(text)).toEqual([true, true, true, true, false, false, false]);
  expect(inFolder(other)).toEqual([false, false]);
  expect(tier!.counters).toMatchObject({ written: 6, leftOut: 0 });
  await offer(textOf('c', 1));
  expect(inFolder(text)).toEqual([true, true, true, false, false, false, false]);
});

it('a text in the folder is evicted from its end, and reads from memory count as uses there', async () => {
  const store = await start(16, 7);
  const [text, other, third] = [textOf('a', 4), textOf('b', 3), textOf('c', 2)];
  await store.offer(text);
  await store.offer(other);
  await store.lookUp(text);
  await store.offer(third);
  expect(store.inFolder(text)).toEqual([true, true, true, true]);
  expect(store.inFolder(other)).toEqual([true, false, false]);
});

it('a text that is written to the folder on shutdown keeps its beginning if it does not fit', async () => {
  const { tier, lower, catalog, inFolder, offer } = await start(8, 3, 'EVICTED');
  const text = textOf('a', 5);
  await offer(text.slice(0, 2));
  await offer(text.slice(2), text[1]);
  await lower!.writeRest(catalog);
  expect(tier!.blocks).toBe(3);
  expect(inFolder(text)).toEqual([true, true, true, false, false]);
});
