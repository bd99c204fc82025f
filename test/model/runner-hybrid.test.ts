/** Sliding-window models and split vocabularies in the runner: against float64, and bit-identical however computed. */
import { afterEach, describe, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { ATTENTION_PART } from '../../src/model/kernels/attention-variants.ts';
import { Oracle } from '../../src/model/oracle/oracle.ts';
import type { Architecture, LayerAttention } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { createHarness, greedy, type Harness, maxDifference, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h.close());

const nano = presetArchitecture('nano');
const full: LayerAttention = { kind: 'full' };
const sliding = (window: number): LayerAttention => ({ kind: 'sliding', window });

/** Like Gemma, with no size a multiple of 4 unless it must be. */
const gemmaLike: Architecture = {
  ...presetArchitecture('tiny-hybrid'),
  name: 'gemma-like',
  attention: [sliding(24), sliding(24), full],
  numLayers: 4,
  hiddenSize: 54,
  numHeads: 6,
  numKvHeads: 2,
  headDim: 20,
  queryPreAttnScalar: 24,
  intermediateSize: 87,
  vocabSize: 333,
};
const mistralLike: Architecture = { ...nano, name: 'mistral-like', attention: [sliding(21)] };
const largeHeads: Architecture = {
  ...nano,
  name: 'large-heads',
  attention: [sliding(50), full],
  hiddenSize: 32,
  numHeads: 4,
  headDim: 256,
};
const longWindow: Architecture = { ...nano, name: 'long-window', attention: [sliding(300), full] };

describe('a sliding-window model over five windows and more', () => {
  it.each([
    ['Gemma-like', gemmaLike, 'f32', 'f32', 2e-4],
    ['Gemma-like', gemmaLike, 'f16', 'f16', 2e-2],
    ['Mistral-like', mistralLike, 'f32', 'f32', 2e-4],
    ['head_dim 256', largeHeads, 'f16', 'f32', 2e-4],
  ] as const)(
    'gives the logits of the float64 oracle within a tolerance: %s',
    async (_, architecture, weightDtype, kvDtype, tolerance) => {
      const weights = new SeededWeights(architecture, 7, weightDtype);
      h = await createHarness(weights, { kvDtype });
      const ids = tokens(270, architecture.vocabSize);
      const oracle = await Oracle.load(weights, { kvDtype });
      const blocks = Array.from({ length: 17 }, (_, i) => 40 - 2 * i);
      const expectLogits = async (start: number, end: number) => {
        const requests = [request('a', ids, start, end, blocks)];
        const [sampled] = await h.runner.execute({ step: end, requests });
        const expected = oracle.forward(ids.slice(start, end))[0]!;
        expect(maxDifference(sampled!.logits!, expected)).toBeLessThan(tolerance);
      };
      await expectLogits(0, 268);
      await expectLogits(268, 269);
      await expectLogits(269, 270);
      expect(h.runner.firstUseCompilations()).toBe(0);
    },
  );
});

/** The last token's logits digest and the content of the blocks. */
interface Outcome {
  digest: string;
  kv: string[];
}

let step = 0;

async function inChunks(
  ids: readonly number[],
  ends: readonly number[],
  blocks: readonly number[],
  leave: (start: number) => void = () => {},
): Promise<Outcome> {
  let digest = '';
  for (const [i, end] of ends.entries()) {
    const start = ends[i - 1] ?? 0;
    leave(start);
    const requests = [request('a', ids, start, end, blocks)];
    const [sampled] = await h.runner.execute({ step: step++, requests });
    digest = sampled!.logitsDigest;
  }
  return { digest, kv: await kvOf(blocks) };
}

async function kvOf(blocks: readonly number[]): Promise<string[]> {
  const parts = [];
  for (const id of blocks) parts.push(Buffer.from(id === 0 ? [] : await h.kv.readBlock(id)).toString('hex'));
  return parts;
}

const blocksFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);
const upTo = (from: number, end: number) => Array.from({ length: end - from }, (_, i) => from + i + 1);

describe.each([gemmaLike, mistralLike, largeHeads])(
  'in $name the same token has the same bits',
  (architecture) => {
    it('in one prefill, in any chunks, token by token, and batched with others', async () => {
      h = await createHarness(new SeededWeights(architecture, 3, 'f16'), { numBlocks: 100 });
      const length = 150;
      const ids = tokens(length, architecture.vocabSize, 5);
      const whole = await inChunks(ids, [length], blocksFrom(1, 10));
      expect(whole.digest).toMatch(/^[0-9a-f]{16}$/);
      expect(await inChunks(ids, [3, 4, 33, 64, 131, length], blocksFrom(11, 10))).toEqual(whole);
      expect(await inChunks(ids, [70, ...upTo(70, length)], blocksFrom(21, 10))).toEqual(whole);
      const other = tokens(200, architecture.vocabSize, 6);
      const requests = [
        request('b', other, 0, 130, blocksFrom(41, 13)),
        request('a', ids, 0, 140, blocksFrom(31, 10)),
      ];
      await h.runner.execute({ step: step++, requests });
      const decodes = [request('b', other, 130, 131, blocksFrom(41, 13)), request('c', other, 0, 1, [60])];
      for (let at = 140; at < length; at++) {
        const mine = request('a', ids, at, at + 1, blocksFrom(31, 10));
        const [, , sampled] = await h.runner.execute({ step: step++, requests: [...decodes, mine] });
        if (at === length - 1) expect(sampled!.logitsDigest).toBe(whole.digest);
      }
      expect(await kvOf(blocksFrom(31, 10))).toEqual(whole.kv);
    });
  },
);

it('with a window of several parts, decode with split attention gives the bits of prefill', async () => {
  h = await createHarness(new SeededWeights(longWindow, 3, 'f16'), {
    numBlocks: 150,
    maxModelLen: 1024,
    maxNumBatchedTokens: 1024,
  });
  const length = 3 * ATTENTION_PART + 60;
  const ids = tokens(length, nano.vocabSize, 8);
  const whole = await inChunks(ids, [length], blocksFrom(1, 52));
  const timed = h.runner.setTiming('kernels');
  const ends = [3 * ATTENTION_PART + 30, ...upTo(3 * ATTENTION_PART + 30, length)];
  expect(await inChunks(ids, ends, blocksFrom(60, 52))).toEqual(whole);
  const combined = h.runner.takeKernelTimes().totals.filter(({ kernel }) => kernel === 'attention combine');
  if (timed) expect(combined.map(({ layer }) => layer)).toEqual([0, 1]);
});

it('if every layer has a window, blocks before it may be overwritten or null', async () => {
  h = await createHarness(new SeededWeights(mistralLike, 3, 'f16'), { numBlocks: 60 });
  const length = 150;
  const ids = tokens(length, nano.vocabSize, 5);
  const ends = [40, 41, 90, 91, 92, 149, length];
  const whole = await inChunks(ids, ends, blocksFrom(1, 10));
  const gone = (start: number) => Math.floor(Math.max(0, start + 1 - 21) / 16);
  const freed = await inChunks(ids, ends, blocksFrom(11, 10), (start) => {
    if (gone(start) > 0) h.kv.poison(0, blocksFrom(11, gone(start)));
  });
  expect(freed.digest).toBe(whole.digest);
  const table = blocksFrom(21, 10);
  const nulled = await inChunks(ids, ends, table, (start) => {
    table.fill(0, 0, gone(start));
  });
  expect(nulled.digest).toBe(whole.digest);
  expect(nulled.kv.slice(9)).toEqual(whole.kv.slice(9));
  // Damage to one more block changes the result.
  const damaged = await inChunks(ids, ends, blocksFrom(31, 10), (start) => {
    if (start > 20) h.kv.poison(0, blocksFrom(31, gone(start) + 1));
  });
  expect(damaged.digest).not.toBe(whole.digest);
});

describe('a vocabulary split into pieces', () => {
  it.each([
    ['tied', { ...gemmaLike, vocabSize: 501 }],
    ['untied', { ...nano, vocabSize: 501, tieWordEmbeddings: false }],
  ])('gives the logits and tokens of a whole one: %s embeddings', async (_, architecture) => {
    const weights = new SeededWeights(architecture, 3, 'f16');
    const ids = tokens(40, architecture.vocabSize, 9);
    const sampling = [
      greedy,
      { ...greedy, temperature: 1, topK: 30, seed: 4 },
      { ...greedy, temperature: 2, topP: 0.8 },
    ];
    const run = async (pieceBytes: number | undefined) => {
      h = await createHarness(weights, pieceBytes === undefined ? {} : { pieceBytes });
      const requests = sampling.map((params, i) =>
        request(`r${i}`, ids, 0, 30 + i, blocksFrom(1 + 3 * i, 3), {
          params,
          outputIndex: i,
          forbiddenTokenIds: [7],
        }),
      );
      const sampled = await h.runner.execute({ step: 0, requests });
      h.close();
      return sampled;
    };
    const whole = await run(undefined);
    for (const columns of [64, 200, 496]) {
      expect(await run(columns * architecture.hiddenSize * 2 + 120)).toEqual(whole);
    }
  });

  it('of 262,144 tokens runs within bindings of 128 MiB', { timeout: 240_000 }, async () => {
    const large = { ...nano, name: 'large-vocabulary', numLayers: 1, hiddenSize: 260, vocabSize: 262_144 };
    const weights = new SeededWeights(large, 3, 'f16');
    h = await createHarness(weights);
    const ids = [5, 131_071, 131_072, 262_143, 70_000];
    const sample = { params: { ...greedy, temperature: 1, seed: 2 }, outputIndex: 0, forbiddenTokenIds: [] };
    const [best, drawn] = await h.runner.execute({
      step: 0,
      requests: [request('a', ids, 0, 5, [1]), request('b', ids, 0, 5, [2], sample)],
    });
    const oracle = await Oracle.load(weights, { kvDtype: 'f16' });
    const expected = oracle.forward(ids)[0]!;
    expect(maxDifference(best!.logits!, expected)).toBeLessThan(2e-2);
    expect(best!.tokenId).toBe(best!.logits!.indexOf(best!.logits!.reduce((a, b) => Math.max(a, b))));
    expect(drawn!.logitsDigest).toBe(best!.logitsDigest);
    expect(drawn!.tokenId).toBeLessThan(262_144);
  });
});
