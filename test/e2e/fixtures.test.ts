/** Hugging Face's reference results on the device: the fixture folders of `kvferry verify --fixture`, and recall. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Arithmetic } from '../../src/config/arithmetic.ts';
import { parseRunConfig } from '../../src/config/run.ts';
import { checkFixture, type FixtureFinding, fixtureChecks } from '../../src/lab/verify/fixture.ts';
import { GpuModel } from '../../src/lab/verify/gpu-model.ts';
import { productTolerance } from '../../src/lab/verify/pulled-blocks.ts';
import type { CheckEnvironment } from '../../src/lab/verify/types.ts';
import { readArchitecture } from '../../src/model/architecture/architecture.ts';
import { loadWeights } from '../../src/model/load.ts';
import { directorySource } from '../../src/platform/node/files.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import type { FileSource, Platform } from '../../src/platform/types.ts';
import { TEST_ADAPTER } from '../adapter.ts';
import { withShader } from './changed-shader.ts';

let f16: boolean;
beforeAll(async () => {
  const { features } = await useAdapter(TEST_ADAPTER);
  f16 = features.includes('shader-f16');
});

const folder = (name: string): FileSource => directorySource(`test/fixtures/hf/${name}`);
const check = (
  files: FileSource,
  platform: Platform = nodePlatform,
  arithmetic: Arithmetic = 'f32',
): Promise<FixtureFinding> =>
  checkFixture(platform, files, () => {}, new AbortController().signal, arithmetic);
const folders = [
  ...['llama-gqa-tied', 'llama-mha-untied', 'qwen2-qkv-bias', 'qwen3-qk-norm'],
  ...['gemma3-hybrid', 'mistral-sliding', 'qwen3-hybrid-window'],
];

/** Milliseconds, for an adapter on a busy CPU. */
const slowAdapter = { timeout: 240_000 };

describe('a fixture folder', slowAdapter, () => {
  it.each(folders)(
    '(%s) is matched in logits, KV and greedy tokens, bit-identical in every chunking',
    async (name) => {
      const { result, chunkDifference } = await check(folder(name));
      expect(result).toMatchObject({
        promptTokens: 90,
        greedyTokens: 40,
        greedyDifference: null,
        passed: true,
      });
      expect(result.maxLogitDifference).toBeLessThan(1e-4);
      expect(result.maxKvDifference).toBeLessThan(1e-4);
      expect(chunkDifference).toBeNull();
    },
  );

  it.for(folders)(
    '(%s) is matched with f16 products in greedy tokens, bit-identical in every chunking',
    async (name, { skip }) => {
      if (!f16) skip('this adapter has no shader-f16');
      const { numLayers } = await readArchitecture(folder(name));
      const { result, chunkDifference } = await check(folder(name), nodePlatform, 'f16');
      expect(result).toMatchObject({ promptTokens: 90, greedyTokens: 40, greedyDifference: null });
      // Logits are below 2, keys and values below 4.
      expect(result.maxLogitDifference).toBeLessThan(productTolerance(numLayers, 2));
      expect(result.maxKvDifference).toBeLessThan(productTolerance(numLayers, 4));
      expect(result.maxLogitDifference).toBeGreaterThan(1e-4);
      expect(chunkDifference).toBeNull();
    },
  );

  it('fails the check when its expected logits and KV come from other weights', async () => {
    const other = folder('llama-mha-untied');
    const mixed: FileSource = {
      ...folder('llama-gqa-tied'),
      readText: (name) => (name === 'expected.json' ? other : folder('llama-gqa-tied')).readText(name),
    };
    const { result } = await check(mixed);
    expect(result.passed).toBe(false);
    expect(result.greedyDifference).not.toBeNull();
  });

  it('reveals a shader whose results depend on the chunking', async () => {
    const portable = withShader(
      'gemm_portable',
      'finish(row + r, group.x, thread, left[r], right[r]);',
      'finish(row + r, group.x, thread, left[r] * select(1.0, 1.0001, r == 1u), right[r]);',
    );
    const both = withShader(
      'gemm',
      'store(row, n, sums[row % ROWS]);',
      'store(row, n, sums[row % ROWS] * select(1.0, 1.0001, row % ROWS == 1u));',
      portable,
    );
    const { result, chunkDifference } = await check(folder('llama-gqa-tied'), both);
    expect(result.passed).toBe(true);
    // Which chunk has the changed rows depends on the kernel forms that the adapter uses.
    expect(chunkDifference).toMatch(/^(one chunk|chunks of [\d, ]+): /);
  });

  it('is refused with a clear message when it does not exist or has no config.json', async () => {
    const environment = (fixture: string) =>
      ({ config: parseRunConfig({ model: 'nano', fixture }) }) as unknown as CheckEnvironment;
    const provider = fixtureChecks(nodePlatform);
    await expect(provider(environment('test/fixtures/none'))).rejects.toThrow(
      /^--fixture is 'test\/fixtures\/none', but there is no such directory: give one with config\.json/,
    );
    const verdict = async (path: string) => {
      const [first] = await provider(environment(path));
      return first!.run(() => {}, new AbortController().signal);
    };
    await expect(verdict('test/fixtures')).rejects.toThrow(
      /'test\/fixtures', but there is no config\.json in it/,
    );
  });
});

interface Conversation {
  name: string;
  turns: { prompt_token_ids: number[]; answer_token_ids: number[]; smallest_margin: number }[];
}

const { conversations } = JSON.parse(readFileSync('models/recall/expected.json', 'utf8')) as {
  conversations: Conversation[];
};
/** Smallest margin between the two best logits: below it, a different order of f32 sums may choose the other token. */
const CLEAR = 0.05;
const BLOCK_SIZE = 16;

describe('the recall model', slowAdapter, () => {
  const lengthOf = ({ prompt_token_ids, answer_token_ids }: Conversation['turns'][number]) =>
    prompt_token_ids.length + answer_token_ids.length;
  const maxModelLen = Math.max(...conversations.flatMap(({ turns }) => turns.map(lengthOf)));
  const numBlocks = 1 + Math.ceil(maxModelLen / BLOCK_SIZE);
  const blockIds = Array.from({ length: numBlocks - 1 }, (_, i) => i + 1);
  let model: GpuModel;
  beforeAll(async () => {
    const files = await nodePlatform.openModel('recall');
    const weights = await loadWeights({ name: 'recall', files, dtype: 'f16', seed: 0 });
    const options = {
      kvDtype: 'f32',
      arithmetic: 'f32',
      blockSize: BLOCK_SIZE,
      numBlocks,
      maxModelLen,
    } as const;
    model = await GpuModel.open(nodePlatform, weights, options);
  });
  afterAll(() => model?.close());

  it.each(conversations)('generates the tokens of Hugging Face: $name', async ({ turns }) => {
    const clear = turns.filter(({ smallest_margin }) => smallest_margin >= CLEAR);
    expect(clear.length).toBeGreaterThan(0);
    let length = 0;
    for (const { prompt_token_ids: prompt, answer_token_ids: answer } of clear) {
      const found: number[] = [];
      let next = prompt.slice(length);
      while (found.length < answer.length) {
        const { tokenId } = await model.feed(next, length, blockIds);
        length += next.length;
        found.push(tokenId!);
        next = [tokenId!];
      }
      expect(found).toEqual(answer);
    }
  });
});
