/** A store with real engines of a sliding-window model: answers equal one engine's, and only the last window is kept. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it } from 'vitest';
import type { PathName } from '../../src/config/paths.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { pathChoice } from '../../src/lab/multiturn/paths.ts';
import { kvCacheSpecs } from '../../src/model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { converse, fingerprint, testOptions, withCluster } from './cluster-fixture.ts';

/** Five groups with a window of 128 tokens, then one with full attention; one layer each. */
const model = 'tiny-hybrid';
const pool = { numBlocks: 400, enablePrefixCaching: false };
const store = { bytes: 2 ** 24, eviction: 's3fifo' } as const;
const options: Partial<ClusterOptions> = {
  ...{ model, kvCacheGroups: kvCacheSpecs(presetArchitecture(model)), store },
  prefill: pool,
  decode: { ...pool, enablePrefixCaching: true },
};
/** 170 new tokens and 12 generated: the first turn is already longer than the windows. */
const long = { newTokens: 170, outputTokens: 12 };

it('a sliding-window model gives the same bits on every store path, and from a folder after a restart', async () => {
  const directory = path.join(await mkdtemp(path.join(tmpdir(), 'kvferry-store-')), 'kv');
  const folder = { directory, bytes: 2 ** 26, ttlMs: null, ingestion: 'ALL' as const };
  try {
    let alone: string[] = [];
    const way = (name: PathName) => {
      const { mode, connector } = pathChoice(name, { offloadPromptOnly: false });
      return { mode, connector };
    };
    await withCluster({ ...options, mode: 'monolithic' }, async (cluster) => {
      alone = fingerprint(await converse(cluster, 'c', 3, long));
      for (const name of ['store', 'pd-reuse', 'both', 'first-hit'] as const) {
        await cluster.configure(way(name));
        const answers = await converse(cluster, 'c', 3, long);
        expect([name, fingerprint(answers)]).toEqual([name, alone]);
        const [first, second] = answers.map(({ result }) => result.transfer);
        expect(first!.storeToP?.blocks ?? 0).toBe(0);
        // D's last save may still be in progress.
        await expect.poll(async () => (await cluster.storeStats())!.inUse).toBe(0);
        if (name !== 'store') continue;
        // 170 tokens: ten full blocks, and eight blocks of each window before token 160. D reaches 181 tokens: eleven.
        expect(first!.storeToD!.blocks).toBe(10 + 5 * 8);
        expect([10, 11]).toContain(second!.storeToP!.blocks - 5 * 8);
        expect(second!.storeToP!.bytes).toBe(second!.storeToP!.blocks * cluster.info.model.blockBytes);
        // Full blocks after the last turn, plus the new blocks of the windows that end at each turn.
        const kept = 34 + 5 * 8 * 3 + 5 * (1 + 0 + 1);
        await expect.poll(async () => (await cluster.storeStats())!.blocks).toBe(kept);
        // The store has the blocks before the engines are notified.
        const saved = async () =>
          (await cluster.stats()).reduce((sum, { store: used }) => sum + used!.savedBlocks, 0);
        await expect.poll(saved).toBe(kept);
      }
      await cluster.configure({ ...way('store'), allFullKv: true });
      expect(fingerprint(await converse(cluster, 'c', 3, long))).toEqual(alone);
    });
    const { mode, connector } = way('both');
    const kept = {
      ...{ ...options, mode, store: { ...store, folder } },
      connector: { ...testOptions.connector, ...connector },
    };
    const loaded: number[] = [];
    for (let life = 0; life < 2; life++) {
      await withCluster(kept, async (cluster) => {
        const there = new Set<string>();
        const wrong: string[] = [];
        cluster.onStoreEvent(({ events }) => {
          for (const event of events) {
            if (event.kind === 'cleared' || event.medium !== 'DISK') continue;
            for (const hash of event.blockHashes) {
              const name = `${hash} of group ${event.group}`;
              if (there.has(name) === (event.kind === 'stored')) wrong.push(`${event.kind} ${name}`);
              there.add(name);
            }
          }
        });
        const answers = await converse(cluster, 'c', 3, long);
        expect(fingerprint(answers)).toEqual(alone);
        loaded.push(answers[0]!.result.prompt.pulledTokens);
        const { folder: inFolder } = (await cluster.storeStats())!;
        await expect.poll(async () => there.size - (await cluster.storeStats())!.folder!.blocks).toBe(0);
        expect([wrong, inFolder!.counters.broken]).toEqual([[], 0]);
      });
    }
    expect(loaded).toEqual([0, 160]);
  } finally {
    await rm(path.dirname(directory), { recursive: true, force: true });
  }
});
