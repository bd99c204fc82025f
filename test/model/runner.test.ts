import { afterEach, describe, expect, it } from 'vitest';
import { EngineDeadError } from '../../src/errors.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { ATTENTION_PART } from '../../src/model/kernels/attention-variants.ts';
import { Oracle } from '../../src/model/oracle/oracle.ts';
import type { Architecture } from '../../src/model/types.ts';
import { SeededWeights } from '../../src/model/weights/seeded-weights.ts';
import { createHarness, greedy, type Harness, maxDifference, request, tokens } from './runner-harness.ts';

let h: Harness;
afterEach(() => h.close());

const nano = presetArchitecture('nano');
const oddShape: Architecture = {
  ...nano,
  name: 'odd',
  numLayers: 2,
  hiddenSize: 54,
  numHeads: 6,
  numKvHeads: 2,
  headDim: 16,
  intermediateSize: 87,
  vocabSize: 333,
  tieWordEmbeddings: false,
  qkvBias: true,
  oBias: true,
  mlpBias: true,
  qkNorm: true,
};
const largeHeads: Architecture = {
  ...nano,
  name: 'large-heads',
  numLayers: 1,
  hiddenSize: 32,
  numHeads: 4,
  numKvHeads: 1,
  headDim: 128,
  ropeScaling: {
    type: 'llama3',
    factor: 8,
    lowFreqFactor: 1,
    highFreqFactor: 4,
    originalMaxPositionEmbeddings: 64,
  },
};

describe('the model runner', () => {
  it.each([
    ['nano', nano, 'f32', 'f32', 2e-4],
    ['nano', nano, 'f16', 'f16', 2e-2],
    ['QK norm, biases, an untied head, odd sizes', oddShape, 'f32', 'f32', 2e-4],
    ['QK norm, biases, an untied head, odd sizes', oddShape, 'f16', 'f16', 2e-2],
    ['head_dim 128, scaled rope', largeHeads, 'f16', 'f32', 2e-4],
  ] as const)(
    'gives the logits of the float64 oracle for a prompt and two more tokens: %s',
    async (_, architecture, weightDtype, kvDtype, tolerance) => {
      const weights = new SeededWeights(architecture, 7, weightDtype);
      h = await createHarness(weights, { kvDtype });
      const ids = tokens(53, architecture.vocabSize);
      const oracle = await Oracle.load(weights, { kvDtype });
      const blocks = [9, 3, 4, 20];
      const [first] = await h.runner.execute({ step: 0, requests: [request('a', ids, 0, 51, blocks)] });
      expect(maxDifference(first!.logits!, oracle.forward(ids.slice(0, 51))[0]!)).toBeLessThan(tolerance);
      for (const at of [51, 52]) {
        const [next] = await h.runner.execute({
          step: at,
          requests: [request('a', ids, at, at + 1, blocks)],
        });
        expect(maxDifference(next!.logits!, oracle.forward([ids[at]!])[0]!)).toBeLessThan(tolerance);
      }
      expect(h.runner.firstUseCompilations()).toBe(0);
    },
  );
});

/** The content of each block. */
async function kvOf(blocks: readonly number[]): Promise<string[]> {
  const parts = [];
  for (const id of blocks)
    parts.push(Array.from(await h.kv.readBlock(id), (byte) => String.fromCharCode(byte)).join(''));
  return parts;
}

describe.each([
  ['nano', nano],
  ['odd', oddShape],
] as const)('in %s the same token has the same bits', (_, architecture) => {
  it('in one prefill, in any chunks, token by token and batched with others', async () => {
    h = await createHarness(new SeededWeights(architecture, 3, 'f16'), { numBlocks: 120 });
    const length = 77;
    const ids = tokens(length, architecture.vocabSize, 5);
    const other = tokens(200, architecture.vocabSize, 6);
    let nextBlock = 1;
    const fresh = (count: number) => Array.from({ length: count }, () => nextBlock++).reverse();
    let step = 0;

    const inChunks = async (ends: readonly number[]) => {
      const blocks = fresh(5);
      let start = 0;
      let digest = '';
      for (const end of ends) {
        const [sampled] = await h.runner.execute({
          step: step++,
          requests: [request('a', ids, start, end, blocks)],
        });
        digest = sampled!.logitsDigest;
        start = end;
      }
      return { digest, kv: await kvOf(blocks) };
    };
    const whole = await inChunks([length]);
    expect(whole.digest).toMatch(/^[0-9a-f]{16}$/);
    expect(await inChunks([3, 4, 33, 64, 76, length])).toEqual(whole);
    expect(await inChunks([16, 32, 48, 64, length])).toEqual(whole);
    expect(await inChunks([70, ...Array.from({ length: 7 }, (_, i) => 71 + i)])).toEqual(whole);

    const mine = fresh(5);
    const theirs = [fresh(13), fresh(13), fresh(13)];
    await h.runner.execute({
      step: step++,
      requests: [
        request('b', other, 0, 130, theirs[0]!),
        request('a', ids, 0, 40, mine),
        request('c', other, 0, 5, theirs[1]!, null),
      ],
    });
    const together = await h.runner.execute({
      step: step++,
      requests: [
        request('b', other, 130, 131, theirs[0]!),
        request('c', other, 5, 9, theirs[1]!),
        request('a', ids, 40, length, mine),
        request('d', other, 0, 30, theirs[2]!),
      ],
    });
    expect(together.map(({ requestId }) => requestId)).toEqual(['b', 'c', 'a', 'd']);
    expect({ digest: together[2]!.logitsDigest, kv: await kvOf(mine) }).toEqual(whole);
  });
});

it('decode of a long context with split attention gives the bits of its prefill', async () => {
  h = await createHarness(new SeededWeights(nano, 3, 'f16'));
  const kernelsRun = new Set<string>();
  const length = ATTENTION_PART + 40;
  const ids = tokens(length, nano.vocabSize, 8);
  const blocksFrom = (first: number) => Array.from({ length: 19 }, (_, i) => first + i);
  const run = async (start: number, end: number, blocks: readonly number[]) => {
    const [sampled] = await h.runner.execute({
      step: end,
      requests: [request('a', ids, start, end, blocks)],
    });
    for (const { kernel } of h.runner.takeKernelTimes().totals) kernelsRun.add(kernel);
    return sampled!.logitsDigest;
  };
  const whole = await run(0, length, blocksFrom(1));
  const timed = h.runner.setTiming('kernels');
  await run(0, ATTENTION_PART - 2, blocksFrom(30));
  let stepwise = '';
  for (let at = ATTENTION_PART - 2; at < length; at++) stepwise = await run(at, at + 1, blocksFrom(30));
  expect(stepwise).toBe(whole);
  expect(await kvOf(blocksFrom(30))).toEqual(await kvOf(blocksFrom(1)));
  if (timed) expect(kernelsRun).toContain('attention combine');
});

it('the runner splits work into short submits with the same results, and copies can run between them', async () => {
  const weights = new SeededWeights(nano, 3, 'f16');
  h = await createHarness(weights);
  const ids = tokens(300, 512);
  const blocks = Array.from({ length: 20 }, (_, i) => i + 1);
  const [whole] = await h.runner.execute({ step: 0, requests: [request('a', ids, 0, 300, blocks)] });
  h.close();
  const submits: number[] = [];
  h = await createHarness(weights, {
    maxSubmitMs: 0.05,
    onSpan: ({ args }) => submits.push(Number(args.submits)),
  });
  let running = true;
  const execution = h.runner.execute({ step: 0, requests: [request('a', ids, 0, 300, blocks)] });
  execution.finally(() => {
    running = false;
  });
  await h.kv.readBlock(40);
  expect(running).toBe(true);
  const [cut] = await execution;
  expect(cut!.logitsDigest).toBe(whole!.logitsDigest);
  expect(submits.length).toBeGreaterThan(10);
});

it('sampling depends on seed and output index, not on the batch row, and avoids forbidden tokens', async () => {
  h = await createHarness(new SeededWeights(nano, 3, 'f16'));
  const ids = tokens(20, 512);
  const sample = (seed: number, outputIndex: number, forbiddenTokenIds: readonly number[] = []) => ({
    params: { ...greedy, temperature: 1, seed },
    outputIndex,
    forbiddenTokenIds,
  });
  const run = (samples: ReturnType<typeof sample>[]) =>
    h.runner.execute({
      step: 0,
      requests: samples.map((s, i) => request(`r${i}`, ids, 0, 20, [2 * i + 1, 2 * i + 2], s)),
    });
  const [alone] = await run([sample(5, 3)]);
  const many = await run([sample(6, 3), sample(7, 1), sample(5, 3), sample(5, 4)]);
  expect(many[2]!.tokenId).toBe(alone!.tokenId);
  expect(new Set(many.map(({ logitsDigest }) => logitsDigest)).size).toBe(1);
  expect(new Set(many.map(({ tokenId }) => tokenId)).size).toBeGreaterThan(1);
  const [kept] = await run([sample(5, 3, [alone!.tokenId!])]);
  expect(kept!.tokenId).not.toBe(alone!.tokenId);
});

it('the runner rejects with EngineDeadError when its device ends during a step, and from then on', async () => {
  const weights = new SeededWeights(nano, 3, 'f16');
  for (let i = 0; i < 3; i++) {
    h = await createHarness(weights, { warm: false, ownDevice: true, kernels: 'prompts' });
    const ids = tokens(500, 512);
    const blocks = Array.from({ length: 32 }, (_, b) => b + 1);
    const batch = { step: 0, requests: [request('a', ids, 0, 500, blocks)] };
    const execution = h.runner.execute(batch);
    const read = h.kv.readBlock(3);
    const failed = Promise.allSettled([execution, read]);
    await new Promise((resolve) => setTimeout(resolve, 4 * i));
    h.close();
    const [outcome] = await failed;
    // A fast device may have finished by then, but not immediately.
    if (i === 0 || outcome.status === 'rejected')
      expect(outcome).toMatchObject({ status: 'rejected', reason: expect.any(EngineDeadError) });
    await expect(h.runner.execute(batch)).rejects.toThrow(EngineDeadError);
  }
});
