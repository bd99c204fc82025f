import { expect, it } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import { uploadWeights } from '../../src/model/device-weights.ts';
import { putOnDevice } from '../../src/model/on-device.ts';
import { presetArchitecture } from '../../src/model/presets.ts';
import { SeededWeights } from '../../src/model/seeded-weights.ts';
import type { Architecture, ModelWeights } from '../../src/model/types.ts';
import { checkLargestWeight, weightSizes } from '../../src/model/weight-sizes.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { openTestDevice } from '../gpu/adapter.ts';

const nano = presetArchitecture('nano');
/** No size of it is a multiple of 4, and it has every part that a model can have. */
const odd: Architecture = {
  ...nano,
  numLayers: 3,
  hiddenSize: 30,
  headDim: 10,
  intermediateSize: 41,
  vocabSize: 99,
  tieWordEmbeddings: false,
  qkvBias: true,
  oBias: true,
  mlpBias: true,
  qkNorm: true,
};

it.each([
  ['nano', nano],
  ['an odd shape', odd],
])('the bytes of the weights of %s are known before they are made', async (_, architecture) => {
  const gpu = await openTestDevice();
  for (const dtype of ['f16', 'f32'] as const) {
    const before = gpu.bufferBytes;
    const weights = await uploadWeights(gpu, new SeededWeights(architecture, 1, dtype), () => {});
    const { total, largest } = weightSizes(architecture, dtype);
    expect(weights.bytes).toBe(total);
    expect(gpu.bufferBytes - before).toBe(total);
    const matrices = [weights.embedding, ...weights.layers.flatMap((l) => [l.qkv, l.o, l.gateUp, l.down])];
    expect(largest.bytes).toBe(Math.max(...matrices.map(({ buffer }) => buffer.size)));
    weights.destroy();
    expect(gpu.bufferBytes).toBe(before);
  }
  gpu.destroy();
});

it('a matrix too large for the adapter is missed before any weight is generated or read', async () => {
  const gpu = await openTestDevice();
  const { report } = gpu;
  gpu.destroy();
  const room = Math.min(report.limits.maxStorageBufferBindingSize, report.limits.maxBufferSize);
  const widest = { ...nano, name: 'wide', vocabSize: 4 * Math.floor(room / (4 * 2 * nano.hiddenSize)) };
  checkLargestWeight(widest, 'f16', report);
  const tooWide = { ...widest, vocabSize: widest.vocabSize + 4 };

  const asked: string[] = [];
  const never = (what: string) => () => {
    asked.push(what);
    return Promise.reject(new Error(`${what} was asked for`));
  };
  const weights: ModelWeights = {
    architecture: tooWide,
    dtype: 'f16',
    embedding: never('embedding'),
    lmHead: never('head'),
    finalNorm: never('norm'),
    layer: never('layer'),
  };
  const limits = { maxNumBatchedTokens: 64, maxNumSeqs: 4, maxModelLen: 256, blockSize: 16 };
  const attempt = putOnDevice(nodePlatform, weights, {
    limits,
    numBlocks: 8,
    kvDtype: 'f16',
    layout: 'contiguous',
    keepLogits: false,
    clock: systemClock,
  });
  await expect(attempt).rejects.toThrow(AdapterError);
  await expect(attempt).rejects.toThrow(
    /wide does not fit .*its weights 'embedding' have \d+ bytes as f16, and max\w+Size is \d+; none were loaded/,
  );
  expect(asked).toEqual([]);
});
