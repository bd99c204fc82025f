/** A model whose last group has fewer layers than a block holds: what is not a layer's never travels. */
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { kvCacheSpecs } from '../../src/model/kv-groups.ts';
import { loadArchitecture } from '../../src/model/load.ts';
import { presetTokenizerFiles } from '../../src/model/preset-tokenizer.ts';
import type { Architecture } from '../../src/model/types.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { converse, fingerprint, withCluster } from './cluster-fixture.ts';

const FROM = 'test/fixtures/hf/gemma3-hybrid';
let folder: string;
let architecture: Architecture;

/** Five windowed layers and two full ones: two to a block, and one left over. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kvferry-padding-'));
  const config = JSON.parse(await readFile(`${FROM}/config.json`, 'utf8'));
  const layer = (full: boolean) => (full ? 'full_attention' : 'sliding_attention');
  delete config.sliding_window_pattern;
  delete config._sliding_window_pattern;
  config.layer_types = [0, 1, 2, 3, 4, 5, 6].map((i) => layer(i === 2 || i === 5));
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  await copyFile(`${FROM}/model.safetensors`, join(folder, 'model.safetensors'));
  await writeFile(join(folder, 'tokenizer.json'), tokenizerOf(config.vocab_size));
  architecture = await loadArchitecture(folder, directorySource(folder));
});
afterAll(() => rm(folder, { recursive: true }));

/** A preset's, without the ids that the model has not. */
function tokenizerOf(vocabSize: number): string {
  const json = JSON.parse(presetTokenizerFiles('nano')['tokenizer.json']!);
  const entries = Object.entries<number>(json.model.vocab).filter(([, id]) => id < vocabSize);
  const vocab = Object.fromEntries(entries);
  const joined = (merge: string | [string, string]) =>
    Array.isArray(merge) ? merge.join('') : merge.replace(' ', '');
  const merges = json.model.merges.filter((merge: string | [string, string]) => joined(merge) in vocab);
  return JSON.stringify({ ...json, model: { ...json.model, vocab, merges } });
}

it.each(['contiguous', 'layer-pieces'] as const)(
  '%s: pulled and handed over, the same bits',
  async (layout) => {
    const groups = kvCacheSpecs(architecture);
    expect(groups.map(({ kind, filled = 1 }) => [kind, filled])).toEqual([
      ['sliding', 1],
      ['sliding', 1],
      ['sliding', 0.5],
      ['full', 1],
    ]);
    const pool = { numBlocks: 300, enablePrefixCaching: false };
    const options = {
      model: folder,
      kvCacheGroups: groups,
      layout,
      prefill: pool,
      decode: pool,
      maxModelLen: 512,
    };
    const turns = { newTokens: 90, outputTokens: 6, ids: 300 };
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
