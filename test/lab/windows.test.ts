/** Whether pools have room to keep all KV, for comparison with windows; checked before a run, so that none is lost. */
import { expect, it } from 'vitest';
import { lacksForAllKv, windowCosts } from '../../src/lab/windows.ts';

const window = { kind: 'sliding', slidingWindow: 32, numLayers: 1 } as never;
const full = { kind: 'full', numLayers: 1 } as never;
/** Blocks of 16 tokens in two groups: 320 tokens take 40 blocks, plus the null block. */
const pools = (prefill: number, decode: number) => ({
  ...{ blockSize: 16, kvCacheGroups: [full, window], maxModelLen: 1024, maxNumBatchedTokens: 512 },
  prefill: { numBlocks: prefill, enablePrefixCaching: true },
  decode: { numBlocks: decode, enablePrefixCaching: true },
});
const turns = [100, 320, 50].map((prompt_tokens) => ({ prompt_tokens }));

it('keeping all KV needs room for the longest prompt in P, and also for its answer in D', () => {
  // The last token of an answer has no KV.
  expect(lacksForAllKv(pools(41, 45), turns, 33)).toBeNull();
  expect(lacksForAllKv(pools(40, 45), turns, 33)).toBe('41 blocks, and --p-blocks is 40');
  expect(lacksForAllKv(pools(41, 45), turns, 34)).toBe('47 blocks, and --d-blocks is 45');
});

it('keeping all KV needs no more room than the context length', () => {
  expect(lacksForAllKv({ ...pools(41, 41), maxModelLen: 321 }, turns, 500)).toBeNull();
});

it('counts what the store saved and loaded, where there is one', () => {
  const moved = { peak_kv_bytes: { prefill: 1, decode: 2 }, bytes_p_to_d: 3, bytes_d_to_p: 4 };
  const stored = { ...moved, bytes_from_store: 0, bytes_to_store: 5 };
  expect(windowCosts(moved)).toEqual(moved);
  expect(windowCosts(stored)).toEqual(stored);
});
