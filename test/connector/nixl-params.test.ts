/** What transfer parameters offer, and how blocks are paired, by hand. */
import { describe, expect, it } from 'vitest';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { pairBlocks, usableTokens } from '../../src/connector/nixl/params.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import { tokens } from '../engine/fakes.ts';

const window = (size: number) => ({ kind: 'sliding' as const, window: size });

function usable(
  params: Partial<KvTransferParams>,
  { prompt = 40, local = 0, blockSize = 16, groups = FULL_GROUP, tokenCheck = true } = {},
) {
  const told = { remote_num_tokens: prompt, remote_token_ids: tokens(prompt), ...params } as KvTransferParams;
  return usableTokens(told, tokens(prompt), local, { blockSize, groups, tokenCheck });
}

describe('usable tokens', () => {
  it.each([
    [{ remote_block_ids: null }, '0 lists of remote blocks for 1 KV cache groups'],
    [{ remote_block_ids: [[1, 2, 3], [4]] }, '2 lists of remote blocks for 1 KV cache groups'],
    [{ remote_block_ids: [[1, 2]] }, '2 remote blocks, but 40 tokens need 3'],
    [{ remote_block_ids: [[1, 2, 3]], remote_num_tokens: null }, 'remote_num_tokens is missing'],
    [{ remote_block_ids: [[1, 2, 3]], remote_token_ids: null }, 'remote_token_ids is missing'],
  ])('are 0, with the reason, for %j', (params, limit) => {
    expect(usable(params)).toEqual({ tokens: 0, limit: `invalid kv_transfer_params: ${limit}` });
  });

  it("are as many as the holder offers; without the token check, D takes P's whole prompt, as vLLM does", () => {
    const of = (do_remote_prefill: boolean, tokenCheck: boolean) =>
      usable({ remote_block_ids: [[1, 2, 3]], remote_num_tokens: 16, do_remote_prefill }, { tokenCheck })
        .tokens;
    expect([of(true, true), of(false, true), of(false, false), of(true, false)]).toEqual([16, 16, 16, 40]);
    const unsaid = { remote_block_ids: [[1, 2, 3]], remote_num_tokens: null, remote_token_ids: null };
    expect(usable(unsaid, { tokenCheck: false }).tokens).toBe(0);
  });

  it('need the window of the next token to compute, which is the last one if nothing else is left', () => {
    const at = { blockSize: 4, groups: [window(5)], prompt: 8 };
    // Token 7 sees token 3, in block 0, which the holder has freed.
    const gone = 'the window of KV cache group 0 that ends at token 8 is gone at the holder';
    expect(usable({ remote_block_ids: [[7]] }, at)).toEqual({ tokens: 0, limit: gone });
    expect(usable({ remote_block_ids: [[6, 7]] }, at)).toEqual({ tokens: 8, limit: null });
    // In a longer prompt, token 8 comes next, which sees from token 4 on.
    const told = { remote_num_tokens: 8, remote_token_ids: tokens(8), remote_block_ids: [[7]] };
    expect(usable(told, { ...at, prompt: 9 })).toEqual({ tokens: 8, limit: null });
  });

  it('need no block of a window of one token where the usable tokens end with a block', () => {
    const remote_token_ids = [...tokens(8), ...tokens(16, 1).slice(8)];
    const told = { remote_token_ids, remote_block_ids: [[4], [1, 2, 3, 4]] };
    const at = { blockSize: 4, groups: [window(1), ...FULL_GROUP], prompt: 16 };
    expect(usable(told, at)).toEqual({ tokens: 8, limit: 'first differing token at 8' });
  });

  it.each([true, false])('are 0 if more are offered than a list can name (token check: %s)', (tokenCheck) => {
    const lie = { remote_num_tokens: 2 ** 40, remote_block_ids: [[7]], do_remote_prefill: true };
    const limit = 'the window of KV cache group 0 that ends at token 8 is gone at the holder';
    const at = { blockSize: 4, groups: [window(5)], prompt: 8, tokenCheck };
    expect(usable(lie, at)).toEqual({ tokens: 0, limit });
  });

  it('need no remote blocks for the part of a window that is local', () => {
    const at = { blockSize: 4, groups: [window(100)], prompt: 12 };
    expect(usable({ remote_block_ids: [[7]] }, { ...at, local: 4 }).tokens).toBe(0);
    expect(usable({ remote_block_ids: [[7]] }, { ...at, local: 8 }).tokens).toBe(12);
  });
});

describe('pairBlocks', () => {
  it.each([
    [
      'as far as the tokens go',
      [[1, 2, 3, 4]],
      [[11, 12, 13, 14]],
      0,
      20,
      [
        [0, 1, 11],
        [0, 2, 12],
      ],
    ],
    [
      'from the first block that is not local',
      [[1, 2, 3]],
      [[11, 12, 13]],
      16,
      48,
      [
        [0, 2, 12],
        [0, 3, 13],
      ],
    ],
    ['as far as there are local blocks', [[1, 2, 3]], [[11]], 0, 48, [[0, 1, 11]]],
    ['as far as there are remote blocks', [[1]], [[11, 12]], 0, 32, [[0, 1, 11]]],
    ['in the groups that the remote side has', [[1]], [[11], [21]], 0, 16, [[0, 1, 11]]],
    ['except null blocks on either side', [[0, 2, 3]], [[11, 0, 13]], 0, 48, [[0, 3, 13]]],
  ] as const)('pairs blocks by index %s', (_, remote, local, from, to, expected) => {
    const pairs = pairBlocks(remote, local, from, to, 16);
    expect(pairs).toEqual(expected.map(([group, remote, local]) => ({ group, remote, local })));
  });

  it("uses block indexes, from 0, as a stream's remote blocks", () => {
    expect(pairBlocks('indexes', [[11, 0, 13]], 0, 48, 16)).toEqual([
      { group: 0, remote: 0, local: 11 },
      { group: 0, remote: 2, local: 13 },
    ]);
  });
});
