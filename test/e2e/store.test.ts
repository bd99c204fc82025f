/** Real engines with a store: answers equal those without one, bit for bit, wherever the KV came from. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import type { Medium } from '../../src/engine/cache-event.ts';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { directoryFolder } from '../../src/platform/node/store-folder.ts';
import { REDIS, RedisServer, WITHOUT_REDIS } from '../store/redis-server.ts';
import { converse, fingerprint, testOptions, withCluster } from './cluster-fixture.ts';

const store = { bytes: 2 ** 20, eviction: 's3fifo' } as const;
const { connector } = testOptions;

const WAYS: Record<string, Partial<ClusterOptions>> = {
  'through the store alone': {
    store,
    connector: {
      ...connector,
      name: 'OffloadingConnector',
      offloading: { ...OFFLOADING_DEFAULTS, promptOnly: false },
    },
    // Nothing is streamed from a store.
    handover: 'streamed',
  },
  'from the store and from each other': {
    store,
    connector: {
      ...connector,
      name: 'MultiConnector',
      offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
      multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
    },
  },
};

/** Tracks block hashes per medium from the store's events. `wrong` lists hashes stored twice or removed when absent. */
function follow(cluster: EngineCluster) {
  const there: Record<Medium, Set<string>> = {
    ...{ GPU: new Set(), CPU: new Set(), DISK: new Set(), REMOTE: new Set() },
  };
  const wrong: string[] = [];
  // Collect errors: an exception here would go to the store's thread, not to the test.
  cluster.onStoreEvent(({ events }) => {
    for (const event of events) {
      if (event.kind === 'cleared') continue;
      const hashes = there[event.medium!];
      for (const hash of event.blockHashes) {
        if (hashes.has(hash) === (event.kind === 'stored')) wrong.push(`${event.kind} ${hash}`);
        if (event.kind === 'stored') hashes.add(hash);
        else hashes.delete(hash);
      }
    }
  });
  return { there, wrong };
}

it.each(Object.entries(WAYS))(
  'answers are the same as without a store when KV comes %s',
  async (_, options) => {
    const without = await withCluster({}, (cluster) => converse(cluster, 'c', 4));
    const composed = options.connector!.name === 'MultiConnector';
    await withCluster(options, async (cluster) => {
      const { there, wrong } = follow(cluster);
      const names = new Map<string, number>();
      cluster.onSpan(({ name }) => names.set(name, (names.get(name) ?? 0) + 1));
      const answers = await converse(cluster, 'c', 4);
      expect(fingerprint(answers)).toEqual(fingerprint(without));
      const loaded = answers.map(({ result }) => result.transfer.storeToP?.blocks ?? 0);
      expect(loaded[0]).toBe(0);
      expect(Math.min(...loaded.slice(1))).toBeGreaterThan(0);
      const { storeToD, pToD } = answers[0]!.result.transfer;
      expect([storeToD?.blocks, pToD?.blocks]).toEqual(composed ? [undefined, 2] : [1, undefined]);
      // The last save may end slightly after its answer.
      await expect.poll(async () => (await cluster.storeStats())!.inUse).toBe(0);
      const engines = await cluster.stats();
      const bytes = engines.reduce((sum, { store: used }) => sum + used!.loadedBytes, 0);
      const blocks = answers.flatMap(({ result: { transfer } }) => [transfer.storeToP, transfer.storeToD]);
      const { blockBytes } = cluster.info.model;
      expect(bytes).toBe(blocks.reduce((sum, one) => sum + (one?.blocks ?? 0), 0) * blockBytes);
      const stats = await cluster.storeStats();
      expect(stats!.counters.taken).toBe(stats!.blocks);
      await expect.poll(() => there.CPU.size).toBe(stats!.blocks);
      expect(there.DISK.size).toBe(0);
      expect(wrong).toEqual([]);
      // One lookup per request: four turns on P and D. With both composed, D's first makes none: the store was empty.
      await expect.poll(() => names.get('store lookup')).toBe(composed ? 7 : 8);
      // Saves are reported too.
      expect(names.get('save')).toBeGreaterThan(0);
      expect(answers.slice(1).some(({ result }) => (result.stagesMs.load_p_lookup ?? 0) > 0)).toBe(true);
      const used = engines.map((engine) => engine.store!);
      // With both composed, D gets everything from P.
      for (const { loads, loadMs } of used) expect(loadMs > 0).toBe(loads > 0);
      expect(used[0]!.loads).toBeGreaterThan(0);
      expect(used.reduce((sum, { saveMs }) => sum + saveMs, 0)).toBeGreaterThan(0);
      if (composed) expect(engines.map(({ store: used }) => used!.twoHopBytes)).toEqual([0, 0]);
    });
  },
);

it("after a restart a conversation loads its blocks from the store's folder and gets the same tokens", async () => {
  const directory = path.join(await mkdtemp(path.join(tmpdir(), 'kvferry-store-')), 'kv');
  const folder = { directory, bytes: 2 ** 24, ttlMs: null, ingestion: 'ALL' as const };
  const options = { ...WAYS['from the store and from each other'], store: { ...store, folder } };
  try {
    const talk = () =>
      withCluster(options, async (cluster) => {
        const { there, wrong } = follow(cluster);
        const answers = await converse(cluster, 'c', 3);
        const inFolder = async () => (await cluster.storeStats())!.folder!.blocks;
        // Writes end slightly later. A new listener is first sent the blocks that are already there.
        await expect.poll(async () => there.DISK.size - (await inFolder())).toBe(0);
        expect(wrong).toEqual([]);
        return { answers, stats: await cluster.storeStats() };
      });
    const before = await talk();
    expect(before.stats!.folder!.counters).toMatchObject({ read: 0, broken: 0 });
    const after = await talk();
    expect(fingerprint(after.answers)).toEqual(fingerprint(before.answers));
    expect(after.stats!.folder!.counters.read).toBeGreaterThan(0);
    expect(after.stats!.folder!.counters.readMs).toBeGreaterThan(0);
    // The first prompt has 21 tokens: its only full block comes from the folder.
    expect(after.answers[0]!.result.prompt.pulledTokens).toBe(16);
    const broken = (await directoryFolder(directory).list()).find(({ name }) => name.endsWith('.kv'))!;
    await writeFile(path.join(directory, broken.name), new Uint8Array(broken.bytes));
    const mended = await talk();
    expect(fingerprint(mended.answers)).toEqual(fingerprint(before.answers));
    expect(mended.stats!.folder!.counters.broken).toBe(1);
  } finally {
    await rm(path.dirname(directory), { recursive: true, force: true });
  }
});

it.skipIf(REDIS === null)(
  `a second cluster loads what the first saved on a shared server, and still serves when it hangs${WITHOUT_REDIS}`,
  async () => {
    const redis = await RedisServer.start();
    try {
      const server = { url: redis.url, ttlMs: null, ingestion: 'ALL' as const };
      const options = { ...WAYS['from the store and from each other'], store: { ...store, server } };
      const first = await withCluster(options, (cluster) => converse(cluster, 'c', 2));
      await withCluster(options, async (cluster) => {
        const { there, wrong } = follow(cluster);
        const second = await converse(cluster, 'c', 2);
        expect(fingerprint(second)).toEqual(fingerprint(first));
        // The first prompt's only full block.
        expect(second[0]!.result.prompt.pulledTokens).toBe(16);
        const stats = await cluster.storeStats();
        expect(stats!.server!.counters).toMatchObject({ broken: 0, outages: 0 });
        expect(stats!.server!.counters.read).toBeGreaterThan(0);
        await expect.poll(() => there.REMOTE.size).toBe(stats!.server!.blocks);
        expect(wrong).toEqual([]);
        redis.hang();
        const other = await converse(cluster, 'd', 2, { seed: 8 });
        expect(other.map(({ tokens }) => tokens.length)).toEqual([12, 12]);
        expect((await cluster.storeStats())!.server).toMatchObject({
          resting: true,
          counters: { outages: 1 },
        });
      });
    } finally {
      redis.goOn();
      await redis.kill();
    }
  },
);
