import { expect, it } from 'vitest';
import { AdapterError } from '../../src/errors.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { countParameters } from '../../src/model/architecture/tensor-names.ts';
import { putOnDevice } from '../../src/model/on-device.ts';
import { type Architecture, type Matrix, type ModelWeights, pad4 } from '../../src/model/types.ts';
import { uploadWeights } from '../../src/model/weights/device-weights.ts';
import { elementPlace } from '../../src/model/weights/panels.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { checkLargestWeight, vocabularyPieces, weightSizes } from '../../src/model/weights/weight-sizes.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { openTestDevice } from '../gpu/adapter.ts';

const nano = presetArchitecture('nano');
/** No size is a multiple of 4, and every optional part is present. */
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
  outputNorms: true,
};

it.each([
  ['nano', nano],
  ['an odd shape', odd],
])('weightSizes gives the bytes of the weights of %s before they are made', async (_, architecture) => {
  const gpu = await openTestDevice();
  for (const dtype of ['f16', 'f32'] as const) {
    const before = gpu.bufferBytes;
    const weights = await uploadWeights(gpu, new SeededWeights(architecture, 1, dtype), () => {});
    const { total, largest } = weightSizes(architecture, dtype);
    expect(weights.bytes).toBe(total);
    expect(gpu.bufferBytes - before).toBe(total);
    const matrices = [...weights.embedding, ...weights.layers.flatMap((l) => [l.qkv, l.o, l.gateUp, l.down])];
    expect(largest.bytes).toBe(Math.max(...matrices.map(({ buffer }) => buffer.size)));
    weights.destroy();
    expect(gpu.bufferBytes).toBe(before);
  }
  gpu.destroy();
});

it('weightSizes is exact beyond 2 GiB', () => {
  const wide = { ...nano, intermediateSize: 2 ** 24 };
  expect(weightSizes(wide, 'f16').largest).toEqual({
    name: 'gate up',
    bytes: 2 * nano.hiddenSize * 2 * 2 ** 24,
  });
  expect(weightSizes(wide, 'f16').total).toBeGreaterThan(2 ** 33);
});

it('an embedding too large for a binding is split into pieces with the columns of the whole', async () => {
  expect(vocabularyPieces(nano, 'f16')).toEqual([{ first: 0, count: 512 }]);
  const gemma = presetArchitecture('gemma-3-270m');
  const pieces = vocabularyPieces(gemma, 'f16');
  expect(pieces).toEqual([0, 87_424, 174_848].map((first, i) => ({ first, count: i < 2 ? 87_424 : 87_296 })));
  expect(weightSizes(gemma, 'f16').largest).toEqual({ name: 'embedding', bytes: 87_424 * 640 * 2 });
  expect(2 * countParameters(gemma)).toBeLessThan(weightSizes(gemma, 'f16').total);

  const untied = { ...odd, numLayers: 1, vocabSize: 301 };
  for (const dtype of ['f16', 'f32'] as const) {
    const weights = new SeededWeights(untied, 1, dtype);
    for (const of of ['embedding', 'lmHead'] as const) {
      const whole = (await weights[of]())!;
      const found = vocabularyPieces(untied, dtype, 64 * 32 * 4);
      expect(found.length).toBeGreaterThan(2);
      expect(found.at(-1)!.first + found.at(-1)!.count).toBe(untied.vocabSize);
      for (const columns of found) {
        const piece = (await weights[of](undefined, columns))!;
        const at = (matrix: Matrix, row: number, column: number) =>
          matrix.data[elementPlace(matrix, row, column)];
        for (let row = 0; row < pad4(untied.hiddenSize); row++) {
          for (let column = 0; column < pad4(columns.count); column++) {
            const wanted = column < columns.count ? at(whole, row, columns.first + column) : 0;
            if (at(piece, row, column) !== wanted)
              expect.fail(`${of}: [${row}][${column}] of ${columns.first}`);
          }
        }
      }
    }
  }
});

it('a matrix too large for the adapter is rejected before any weight is generated or read', async () => {
  const gpu = await openTestDevice();
  const { report } = gpu;
  gpu.destroy();
  const room = Math.min(report.limits.maxStorageBufferBindingSize, report.limits.maxBufferSize);
  // Gate and up are fused side by side.
  const intermediateSize = 2 * Math.floor(room / (2 * 2 * 2 * nano.hiddenSize));
  const widest = { ...nano, name: 'wide', intermediateSize };
  checkLargestWeight(widest, 'f16', report);
  checkLargestWeight({ ...nano, vocabSize: 2 ** 24 }, 'f32', report);
  const tooWide = { ...widest, intermediateSize: intermediateSize + 2 };

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
    /wide does not fit .*its weights 'gate up' have \d+ bytes as f16, but max\w+Size is \d+; none were loaded/,
  );
  expect(asked).toEqual([]);
});
