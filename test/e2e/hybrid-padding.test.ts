/** A model whose last group has fewer layers than a block holds: the padding is never transferred. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { kvCacheSpecs } from '../../src/model/architecture/kv-groups.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';
import { type HybridFolder, hybridFolder, IDS } from './hybrid-folder.ts';

let model: HybridFolder;
/** Five sliding layers and two full ones, two layers to a block: the last block of the sliding ones is half empty. */
beforeAll(async () => {
  model = await hybridFolder([0, 0, 1, 0, 0, 1, 0].map(Boolean));
});
afterAll(() => model.remove());

it.each(['contiguous', 'layer-pieces'] as const)(
  'a group with fewer layers than a block transfers no padding and gives the same bits: layout %s',
  async (layout) => {
    const groups = kvCacheSpecs(model.architecture);
    expect(groups.map(({ kind, filled = 1 }) => [kind, filled])).toEqual([
      ['sliding', 1],
      ['sliding', 1],
      ['sliding', 0.5],
      ['full', 1],
    ]);
    const pool = { numBlocks: 300, enablePrefixCaching: false };
    const options = {
      model: model.path,
      kvCacheGroups: groups,
      layout,
      prefill: pool,
      decode: pool,
      maxModelLen: 512,
    };
    const turns = { newTokens: 90, outputTokens: 6, ids: IDS };
    await withCluster({ ...options, mode: 'monolithic' }, async (cluster) => {
      const alone = fingerprint(await converse(cluster, 'c', 2, turns));
      await cluster.setMode('bidirectional');
      const answers = await converse(cluster, 'c', 2, turns);
      expect(fingerprint(answers)).toEqual(alone);
      const kvBytes = kvBytesOf(16, cluster.info.model.blockBytes, groups);
      const [first, second] = answers.map(({ result }) => result.transfer);
      expect(first!.pToD!.bytes).toBe(kvBytes(0, 90, 89));
      expect(first!.pToD!.bytes).toBeLessThan(first!.pToD!.blocks * cluster.info.model.blockBytes);
      expect(second!.dToP!.bytes).toBe(kvBytes(0, 95));
    });
  },
);
