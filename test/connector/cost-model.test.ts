/** Bytes that the cost models predict for a transfer, against those that move: random windows, block sizes and lengths. */
import { expect, it } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { kvBytesOf } from '../../src/connector/policy/cost-model.ts';
import { Random } from '../../src/workload/random.ts';
import { tokens } from '../engine/fakes.ts';
import { PolicyCluster } from './policy-cluster.ts';

const BLOCK_BYTES = 1000;

it.each([1, 2, 3])('kvBytesOf gives the bytes moved to D and back, in %i groups', async (numGroups) => {
  for (let seed = 0; seed < 12; seed++) {
    const random = new Random(1000 * numGroups + seed);
    const blockSize = random.int(1, 9);
    const groups = Array.from(
      { length: numGroups },
      (): KvCacheSpec =>
        random.int(0, 3) === 0 ? { kind: 'full' } : { kind: 'sliding', window: random.int(1, 40) },
    );
    const length = random.int(2, 90);
    const sizes = { blockSize, groups, numBlocks: 600, maxNumBatchedTokens: 32, prefixCaching: false };
    const cluster = new PolicyCluster(sizes, sizes);
    const kvBytes = kvBytesOf(blockSize, BLOCK_BYTES, groups);
    const turn = async (
      id: string,
      prompt: readonly number[],
      params: Parameters<typeof cluster.turn>[3],
    ) => {
      const before = cluster.net.blocksMoved;
      const served = await cluster.finish(cluster.turn(id, prompt, { maxTokens: 5 }, params), { idleMs: 0 });
      return { ...served, moved: (cluster.net.blocksMoved - before) * BLOCK_BYTES };
    };
    const first = await turn('1', tokens(length), null);
    expect([seed, first.moved]).toEqual([seed, kvBytes(0, length, length - 1)]);

    // D has KV of all but the last token it generated.
    const prompt = [...tokens(length), ...first.output, ...tokens(3, 7)];
    const held = length + first.output.length - 1;
    const second = await turn('2', prompt, first.params);
    expect(cluster.p.promptOf('2-p')!.pulledTokens).toBe(held);
    const handedOver = kvBytes(0, prompt.length, prompt.length - 1);
    expect([seed, second.moved]).toEqual([seed, kvBytes(0, held) + handedOver]);
    await cluster.release();
  }
});
