import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { describe, expect, test } from 'vitest';
import { ModelError } from '../../src/errors.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import type { Architecture, ModelWeights, WeightDtype } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { abandon, SharedWeights, sharedBytes } from '../../src/model/weights/shared-weights.ts';

const nano = presetArchitecture('nano');
/** Every optional part of an architecture, in sizes that need padding. */
const odd: Architecture = {
  ...nano,
  numLayers: 5,
  vocabSize: 511,
  tieWordEmbeddings: false,
  ...{ qkvBias: true, oBias: true, mlpBias: true, qkNorm: true, outputNorms: true },
};

const memoryFor = (architecture: Architecture, dtype: WeightDtype) =>
  new SharedArrayBuffer(sharedBytes(architecture, dtype)!);

async function all(weights: ModelWeights) {
  const layers = [];
  const embedding = await weights.embedding();
  const lmHead = await weights.lmHead();
  for (let i = 0; i < weights.architecture.numLayers; i++) layers.push(await weights.layer(i));
  return digests({ embedding, lmHead, finalNorm: await weights.finalNorm(), layers });
}

/** The value with every array replaced by the digest of its content. */
const digests = (value: unknown): unknown =>
  JSON.parse(
    JSON.stringify(value, (_, part) =>
      ArrayBuffer.isView(part)
        ? bytesToHex(sha256(new Uint8Array(part.buffer, part.byteOffset, part.byteLength)))
        : part,
    ),
  );

/** Records the parts it is asked to make, and yields to others before each. */
class Counted extends SeededWeights {
  readonly made: string[] = [];
  before: (what: string) => Promise<void> = () => new Promise((resolve) => setTimeout(resolve, 1));

  override async embedding(...rest: Parameters<SeededWeights['embedding']>) {
    return this.#asked('embedding', () => super.embedding(...rest));
  }

  override async lmHead(...rest: Parameters<SeededWeights['lmHead']>) {
    return this.#asked('lm head', () => super.lmHead(...rest));
  }

  override async layer(index: number, ...rest: [] | [Parameters<SeededWeights['layer']>[1]]) {
    return this.#asked(`layer ${index}`, () => super.layer(index, ...rest));
  }

  async #asked<T>(what: string, make: () => Promise<T>): Promise<T> {
    this.made.push(what);
    await this.before(what);
    return make();
  }
}

describe.each(['f16', 'f32'] as const)('shared weights in %s', (dtype) => {
  test.each([['nano, tied', nano] as const, ['biases, QK norm, an LM head', odd] as const])(
    'let three engines make each part once, with the same bits as one engine alone: %s',
    async (_, architecture) => {
      const expected = await all(new SeededWeights(architecture, 3, dtype));
      const memory = memoryFor(architecture, dtype);
      const own = [0, 1, 2].map(() => new Counted(architecture, 3, dtype));
      const taken = await Promise.all(own.map((weights) => all(new SharedWeights(weights, memory))));
      for (const weights of taken) expect(weights).toEqual(expected);
      const made = own.flatMap((weights) => weights.made);
      expect(new Set(made).size).toBe(made.length);
      const parts = architecture.numLayers + (architecture.tieWordEmbeddings ? 1 : 2);
      expect(made).toHaveLength(parts);
      for (const weights of own) expect(weights.made.length).toBeGreaterThan(0);
    },
  );
});

test('if one engine fails, the others make the remaining shared weights themselves', async () => {
  const memory = memoryFor(odd, 'f16');
  const failing = new Counted(odd, 3, 'f16');
  failing.before = async (what) => {
    if (what === 'layer 1') throw new ModelError('the file is truncated');
  };
  await expect(all(new SharedWeights(failing, memory))).rejects.toThrow('truncated');
  const other = new Counted(odd, 3, 'f16');
  expect(await all(new SharedWeights(other, memory))).toEqual(await all(new SeededWeights(odd, 3, 'f16')));
  expect(other.made).toEqual(['layer 1', 'layer 2', 'layer 3', 'layer 4']);
});

test('what an engine makes ahead, while it waits for the driver, the other one takes', async () => {
  const memory = memoryFor(odd, 'f16');
  const waiting = new Counted(odd, 3, 'f16');
  const ahead = new SharedWeights(waiting, memory);
  const parts = odd.numLayers + 2;
  for (let part = 0; part < parts; part++) expect(await ahead.makeAhead()).toBe(true);
  expect(await ahead.makeAhead()).toBe(false);
  const other = new Counted(odd, 3, 'f16');
  expect(await all(new SharedWeights(other, memory))).toEqual(await all(new SeededWeights(odd, 3, 'f16')));
  expect(other.made).toEqual([]);
});

test('a part that fails when made ahead fails again, with its reason, when it is wanted', async () => {
  const memory = memoryFor(odd, 'f16');
  const failing = new Counted(odd, 3, 'f16');
  failing.before = async () => {
    throw new ModelError('the file is truncated');
  };
  const weights = new SharedWeights(failing, memory);
  expect(await weights.makeAhead()).toBe(true);
  await expect(weights.embedding()).rejects.toThrow('truncated');
});

test('engines do not wait for one that has abandoned the shared weights', async () => {
  const memory = memoryFor(odd, 'f16');
  const gone = new Counted(odd, 3, 'f16');
  gone.before = () => new Promise(() => {});
  void all(new SharedWeights(gone, memory));
  const other = new Counted(odd, 3, 'f16');
  const waiting = all(new SharedWeights(other, memory));
  abandon(memory, odd);
  expect(await waiting).toEqual(await all(new SeededWeights(odd, 3, 'f16')));
  expect(other.made).toContain('embedding');
});

test('weights above the size limit are not shared', () => {
  expect(sharedBytes(presetArchitecture('smollm2-135m'), 'f16')).toBeGreaterThan(2 ** 27);
  expect(sharedBytes(presetArchitecture('llama-3.2-1b'), 'f16')).toBeNull();
});

test('pieces of a shared vocabulary have the columns of the whole', async () => {
  const memory = memoryFor(odd, 'f16');
  const shared = new SharedWeights(new SeededWeights(odd, 3, 'f16'), memory);
  const own = new SeededWeights(odd, 3, 'f16');
  for (const columns of [
    { first: 0, count: 256 },
    { first: 256, count: 255 },
  ]) {
    expect(digests(await shared.embedding(undefined, columns))).toEqual(
      digests(await own.embedding(undefined, columns)),
    );
    expect(digests(await shared.lmHead(undefined, columns))).toEqual(
      digests(await own.lmHead(undefined, columns)),
    );
  }
});
