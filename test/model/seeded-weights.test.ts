import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { describe, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { loadOracleWeights, Oracle } from '../../src/model/oracle/oracle.ts';
import {
  type Architecture,
  type LayerWeights,
  type Matrix,
  type ModelWeights,
  pad4,
} from '../../src/model/types.ts';
import { halfToFloat } from '../../src/model/weights/half.ts';
import { elementPlace } from '../../src/model/weights/panels.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { generateGreedy } from './oracle-runs.ts';

const nano = presetArchitecture('nano');
/** Has every optional part, and no size is a multiple of 4. */
const odd: Architecture = {
  ...nano,
  name: 'odd',
  numLayers: 1,
  hiddenSize: 30,
  numHeads: 3,
  numKvHeads: 1,
  headDim: 10,
  intermediateSize: 17,
  vocabSize: 101,
  tieWordEmbeddings: false,
  qkvBias: true,
  oBias: true,
  mlpBias: true,
  qkNorm: true,
  outputNorms: true,
};

const tinyGemma = { name: 'tiny-gemma', hiddenSize: 64, headDim: 16, intermediateSize: 192, vocabSize: 512 };

async function everything(weights: ModelWeights): Promise<Record<string, Matrix | Float32Array>> {
  const parts: Record<string, Matrix | Float32Array | null> = {
    embedding: await weights.embedding(),
    lmHead: await weights.lmHead(),
    finalNorm: await weights.finalNorm(),
  };
  for (let i = 0; i < weights.architecture.numLayers; i++) {
    const layer: LayerWeights = await weights.layer(i);
    for (const [name, part] of Object.entries(layer)) parts[`${i}.${name}`] = part;
  }
  return Object.fromEntries(
    Object.entries(parts).filter((entry): entry is [string, Matrix | Float32Array] => entry[1] !== null),
  );
}

function rowByRow(matrix: Matrix): Matrix['data'] {
  const width = pad4(matrix.columns);
  return matrix.data.map((_, i) => matrix.data[elementPlace(matrix, Math.floor(i / width), i % width)]!);
}

const numbers = (part: Matrix | Float32Array): number[] => {
  if (part instanceof Float32Array) return [...part];
  const data = rowByRow(part);
  return part.dtype === 'f16' ? Array.from(data, halfToFloat) : [...data];
};

describe('seeded weights', () => {
  it('are the same bits on every machine', async () => {
    const hash = sha256.create();
    for (const part of Object.values(await everything(new SeededWeights(nano, 0, 'f16')))) {
      const data = part instanceof Float32Array ? part : rowByRow(part);
      hash.update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    }
    expect(bytesToHex(hash.digest())).toBe(
      '971a22a6854e8de4afb7f720ab4458c9bdeebeefde777318eb0d7d93f0a3dc1d',
    );
  });

  it('in f32 are the f16 values widened', async () => {
    for (const architecture of [nano, odd]) {
      const halves = await everything(new SeededWeights(architecture, 3, 'f16'));
      const floats = await everything(new SeededWeights(architecture, 3, 'f32'));
      expect(Object.keys(halves)).toEqual(Object.keys(floats));
      for (const [name, part] of Object.entries(halves))
        expect(numbers(part), name).toEqual(numbers(floats[name]!));
    }
  });

  it('differ between seeds, layers and tensors', async () => {
    const two = { ...odd, numLayers: 2 };
    const parts = { ...(await everything(new SeededWeights(two, 1, 'f16'))) };
    const others = await everything(new SeededWeights(two, 2, 'f16'));
    const all = [...Object.values(parts), ...Object.values(others)].map((part) =>
      numbers(part).slice(0, 10).join(),
    );
    expect(new Set(all).size).toBe(all.length);
  });

  it('fill their shape, and leave the padding zero', async () => {
    for (const [name, part] of Object.entries(await everything(new SeededWeights(odd, 0, 'f16')))) {
      if (part instanceof Float32Array) continue;
      const stride = pad4(part.columns);
      expect(part.data.length, name).toBe(pad4(part.rows) * stride);
      let zeros = 0;
      rowByRow(part).forEach((bits, i) => {
        const inside = Math.floor(i / stride) < part.rows && i % stride < part.columns;
        if (inside && bits === 0) zeros++;
        if (!inside && bits !== 0) expect.fail(`${name} has ${bits} in its padding`);
      });
      expect(zeros / (part.rows * part.columns), name).toBeLessThan(0.02);
    }
  });

  it('have mean 0, the requested deviation and no subnormal halves', async () => {
    const weights = new SeededWeights(presetArchitecture('tiny'), 0, 'f16');
    const { qkv, o } = await weights.layer(3);
    const deviation = (values: readonly number[]) => {
      const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
      expect(Math.abs(mean)).toBeLessThan(0.002);
      return Math.sqrt(values.reduce((sum, x) => sum + (x - mean) ** 2, 0) / values.length);
    };
    const width = 8 * 64;
    const q = numbers(qkv).filter((_, i) => i % width < 6 * 64);
    const v = numbers(qkv).filter((_, i) => i % width >= 6 * 64);
    expect(deviation(q)).toBeCloseTo(Math.SQRT2 / 16, 3);
    expect(deviation(v)).toBeCloseTo(1 / 16, 3);
    expect(deviation(numbers(o))).toBeCloseTo(2 / 16, 3);
    expect([...numbers(qkv), ...numbers(o)].filter((x) => x !== 0 && Math.abs(x) < 2 ** -14)).toEqual([]);
  });

  it.each([
    ['nano', nano],
    ['like Gemma 3', { ...presetArchitecture('tiny-hybrid'), ...tinyGemma }],
  ])('make a model whose output depends on its context: %s', async (_, architecture) => {
    const weights = await loadOracleWeights(new SeededWeights(architecture, 0, 'f16'));
    const prompt = Array.from({ length: 60 }, (_, i) => 5 + ((i * 131) % 500));
    const changed = prompt.with(3, 77);
    const generate = (ids: readonly number[]) =>
      generateGreedy(new Oracle(weights, { kvDtype: 'f32' }), ids, 40);
    const words = generate(prompt);
    expect(new Set(words).size).toBeGreaterThan(20);
    expect(words.join()).not.toBe(generate(changed).join());
    const logits = (ids: readonly number[]) => new Oracle(weights, { kvDtype: 'f32' }).forward(ids)[0]!;
    const other = logits(changed);
    expect(Math.max(...logits(prompt).map((x, i) => Math.abs(x - other[i]!)))).toBeGreaterThan(0.2);
  });
});
