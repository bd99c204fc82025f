/** How much device and shared memory engines take, and what they report about it. */
import { expect, it } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import { leastMemory } from '../../src/fleet/memory-needs.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { weightSizes } from '../../src/model/weights/weight-sizes.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { converse, testOptions, withCluster } from './cluster-fixture.ts';

const TURNS = 10;

it('engine memory does not grow from 10 turns to 60, and GPU memory is allocated before the first turn', async () => {
  await withCluster({ maxNumSeqs: 4, poison: false }, async (cluster) => {
    const memory = async () => (await cluster.stats()).map(({ memory }) => memory);
    const budget = cluster.info.engines.map(({ memory: { shared, ...gpu } }) => ({
      gpu: Object.values(gpu).reduce((sum, bytes) => sum + bytes, 0),
      shared,
    }));
    expect(await memory()).toEqual(budget.map(({ gpu }) => ({ gpu, shared: 0 })));

    await converse(cluster, 'first', TURNS);
    expect(await memory()).toEqual(budget);

    // Concurrent conversations use more of the staging buffers than one does.
    let pulled = 0;
    await Promise.all(
      ['a', 'b', 'c', 'd', 'e'].map(async (id, i) => {
        const answers = await converse(cluster, id, TURNS, { seed: i + 1 });
        pulled += answers.reduce((sum, { result }) => sum + result.prompt.pulledTokens, 0);
        await cluster.endConversation(id);
      }),
    );
    expect(pulled).toBeGreaterThan(0);
    expect(await memory()).toEqual(budget);
  });
});

it('engine memory is reported in parts, with weights and KV as the configuration predicts', async () => {
  const architecture = presetArchitecture('nano');
  await withCluster({ weightDtype: 'f32' }, async (cluster) => {
    const { blockBytes } = cluster.info.model;
    for (const { memory, numBlocks } of cluster.info.engines) {
      expect(memory.weights).toBe(weightSizes(architecture, 'f32').total);
      expect(memory.kv).toBe(numBlocks * blockBytes);
      expect(memory.other).toBeGreaterThan(0);
      expect(memory.other).toBeLessThan(memory.activations!);
    }
    const { weights, kv } = leastMemory(cluster.settings, architecture);
    const sum = (part: string) => cluster.info.engines.reduce((all, { memory }) => all + memory[part]!, 0);
    expect({ weights, kv }).toEqual({ weights: sum('weights'), kv: sum('kv') });
  });
});

it('a cluster that does not fit into free memory is refused before any engine starts', async () => {
  const platform = {
    ...nodePlatform,
    freeMemory: () => 2 ** 30,
    startEngineThread: () => Promise.reject(new Error('an engine was started')),
  };
  const start = EngineCluster.start(platform, { ...testOptions, model: 'llama-3.2-1b' });
  await expect(start).rejects.toThrow(AdapterError);
  await expect(start).rejects.toThrow(
    /llama-3\.2-1b does not fit: P and D need at least [\d.]+ GiB .* 1 GiB of this machine's memory is free/,
  );
});

it("a cluster that would exceed the kernel's limit on memory mappings is refused, and so is scaling to one", async () => {
  const refused = {
    ...nodePlatform,
    freeMappings: () => 1000,
    startEngineThread: () => Promise.reject(new Error('an engine was started')),
  };
  const start = EngineCluster.start(refused, testOptions);
  await expect(start).rejects.toThrow(AdapterError);
  await expect(start).rejects.toThrow(/2 engines do not fit into one process.* ask for 1 or fewer/);
  expect(nodePlatform.freeMappings()).toBeGreaterThan(2000);

  let free = 5000;
  const cluster = await EngineCluster.start({ ...nodePlatform, freeMappings: () => free }, testOptions);
  try {
    free = 1000;
    await expect(cluster.scale({ decode: 3 })).rejects.toThrow(/2 engines do not fit .*nothing was changed/);
    expect(cluster.engines).toHaveLength(2);
  } finally {
    await cluster.close();
  }
});
