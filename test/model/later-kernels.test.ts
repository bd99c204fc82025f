/** Engines that start with some of their kernels: they compute everything, and the other kernels follow later. */
import { afterEach, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import type { KernelSet } from '../../src/model/kernels/pass-kernels.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { openTestDevice } from '../gpu/adapter.ts';
import { createHarness, type Harness, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h.close());

const architecture = { ...presetArchitecture('nano'), numLayers: 2 };
const weights = new SeededWeights(architecture, 5, 'f16');
const ids = [1, 2, 3].map((seed) => tokens(30, architecture.vocabSize, seed));

/** Runs steps of many rows, of a few, and of one to three sequences; returns logits digests and KV. */
async function live(from: number): Promise<string[]> {
  const digests: string[] = [];
  const run = async (start: number, end: number, which: readonly number[]) => {
    const requests = which.map((i) => request(`${i}`, ids[i]!, start, end, [1 + 3 * i, 2 + 3 * i]));
    digests.push(
      ...(await h.runner.execute({ step: from + start, requests })).map((each) => each.logitsDigest),
    );
  };
  await run(0, 20, [0]);
  await run(0, 3, [1]);
  await run(3, 20, [1, 2]);
  await run(20, 21, [0]);
  await run(20, 21, [1, 2]);
  await run(21, 22, [0, 1, 2]);
  const kv = await Promise.all([1, 2, 4, 5].map((id) => h.kv.readBlock(id)));
  return [...digests, ...kv.map((block) => Buffer.from(block).toString('hex'))];
}

it('each set of kernels gives the same bits, and the one-row set compiles the others later, once each', async () => {
  const lived = new Map<KernelSet, string[]>();
  for (const kernels of ['prompts', 'one row'] as const) {
    // Compile on another device first, for drivers that compile at the first dispatch.
    const openCompiler = () => openTestDevice(0);
    h = await createHarness(weights, { kernels, openCompiler, numBlocks: 12, maxModelLen: 64 });
    const { pipelines } = await h.runner.warmUp();
    expect(h.runner.firstUseCompilations()).toBe(0);
    lived.set(kernels, await live(0));
    await h.runner.kernelsSettled();
    const { pipelines: now } = await h.runner.warmUp();
    expect(await live(100), `${kernels}, afterwards`).toEqual(lived.get(kernels));
    const later = h.runner.firstUseCompilations();
    if (kernels === 'one row') {
      expect(now).toBeGreaterThan(pipelines);
      expect(later).toBe(now - pipelines);
    } else expect([now, later]).toEqual([pipelines, 0]);
    if (kernels === 'prompts') h.close();
  }
  expect(lived.get('one row')).toEqual(lived.get('prompts'));
});

it.each([
  ['cannot be opened', () => Promise.reject(new Error('no memory for a second device'))],
  [
    'fails',
    async () => {
      const compiler = await openTestDevice(0);
      compiler.destroy('its memory is exhausted');
      return compiler;
    },
  ],
])(
  'an engine compiles the other kernels on its own device if the second device %s',
  async (_, openCompiler) => {
    h = await createHarness(weights, { kernels: 'one row', openCompiler, numBlocks: 12, maxModelLen: 64 });
    const step = (at: number) => {
      const requests = [0, 1].map((i) => request(`${i}`, ids[i]!, at, at + 1, [1 + i]));
      return h.runner.execute({ step: at, requests });
    };
    const { pipelines } = await h.runner.warmUp();
    await step(0);
    await h.runner.kernelsSettled();
    expect(await step(1)).toHaveLength(2);
    expect((await h.runner.warmUp()).pipelines).toBeGreaterThan(pipelines);
  },
);

it('an engine that is closed during a later compilation leaves nothing pending', async () => {
  h = await createHarness(weights, { kernels: 'one row', numBlocks: 12, maxModelLen: 64 });
  const requests = [0, 1].map((i) => request(`${i}`, ids[i]!, 0, 1, [1 + i]));
  await h.runner.execute({ step: 1, requests });
  h.close();
  await h.runner.kernelsSettled();
});

it('an engine that decodes only one sequence compiles no further kernels', async () => {
  h = await createHarness(weights, { kernels: 'one row', numBlocks: 12, maxModelLen: 64 });
  for (let step = 0; step < 3; step++)
    await h.runner.execute({ step, requests: [request('0', ids[0]!, step, step + 1, [1, 2])] });
  await h.runner.kernelsSettled();
  await h.runner.execute({ step: 3, requests: [request('0', ids[0]!, 3, 4, [1, 2])] });
  expect(h.runner.firstUseCompilations()).toBe(0);
});
