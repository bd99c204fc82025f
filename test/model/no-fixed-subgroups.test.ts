/** Adapters whose subgroups have no fixed size, as many laptops' GPUs: other kernels, and the same tokens, logits and KV. */
import { afterEach, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/presets.ts';
import { SeededWeights } from '../../src/model/seeded-weights.ts';
import type { Architecture } from '../../src/model/types.ts';
import { openTestDevice } from '../gpu/adapter.ts';
import { createHarness, type Harness, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h?.close());

it('gives the tokens, logits and KV of one with subgroups', async () => {
  const architecture: Architecture = { ...presetArchitecture('nano'), numLayers: 2 };
  const weights = new SeededWeights(architecture, 5, 'f16');
  const ids = [1, 2].map((seed) => tokens(300, architecture.vocabSize, seed));
  const blocks = [1, 2].map((i) => Array.from({ length: 19 }, (_, block) => 19 * (i - 1) + block + 1));
  const lived = [];
  for (const subgroups of [true, false]) {
    h = await createHarness(weights, { subgroups, numBlocks: 40 });
    const digests: string[] = [];
    const run = async (start: number, end: number, which: readonly number[]) => {
      const requests = which.map((i) => request(`${i}`, ids[i]!, start, end, blocks[i]!));
      digests.push(...(await h.runner.execute({ step: start, requests })).map((each) => each.logitsDigest));
    };
    // Many rows, then beyond a part of attention's; few rows; one and two.
    await run(0, 290, [0]);
    await run(0, 290, [1]);
    await run(290, 294, [0, 1]);
    await run(294, 295, [0]);
    await run(294, 295, [1]);
    await run(295, 296, [0, 1]);
    const kv = await Promise.all(blocks.flat().map((id) => h.kv.readBlock(id)));
    lived.push({ digests, kv });
    expect(h.runner.firstUseCompilations()).toBe(0);
    if (subgroups) h.close();
  }
  expect(lived[1]!.digests).toEqual(lived[0]!.digests);
  expect(lived[1]!.kv).toEqual(lived[0]!.kv);
});

it('asks such an adapter for no subgroups', async () => {
  const gpu = await openTestDevice(0, false);
  expect(gpu.report.subgroupSize).toBeNull();
  expect(gpu.device.features.has('subgroups')).toBe(false);
  gpu.destroy();
});
