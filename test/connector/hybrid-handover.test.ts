/** Handover between P and D for layers with a window: how many blocks move, and when nothing can be pulled. Policy only. */
import { describe, expect, it } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import { pairBlocks, remoteTable, usableTokens } from '../../src/connector/nixl/params.ts';
import { alone, chain, request, type Sizes, tokens } from '../engine/fakes.ts';
import { PolicyCluster } from './policy-cluster.ts';

const full: KvCacheSpec = { kind: 'full' };
const sliding = (window: number): KvCacheSpec => ({ kind: 'sliding', window });
/** The full group is last, as in Gemma. */
const groups = [sliding(12), sliding(12), full];
const sizes: Sizes = { blockSize: 4, groups, numBlocks: 300, maxNumBatchedTokens: 32 };

async function play(
  cluster: PolicyCluster,
  id: string,
  prompt: readonly number[],
  params: KvTransferParams | null,
) {
  const turn = cluster.turn(id, prompt, { maxTokens: 10 }, params);
  const { output, params: next } = await cluster.finish(turn, { idleMs: 0 });
  expect(output).toEqual(await alone(prompt, { maxTokens: 10 }));
  return { output, params: next, account: cluster.p.promptOf(`${id}-p`)! };
}

describe('P to D', () => {
  it('hands over at most the last ceil(W / block) + 1 blocks of a windowed group, and all of a full one', async () => {
    const cluster = new PolicyCluster(sizes, sizes);
    const params = { do_remote_decode: true, do_remote_prefill: false };
    cluster.p.add(request('x', tokens(50), { maxTokens: 1 }, { kvTransferParams: params }));
    await cluster.settle();
    const [hold] = cluster.p.holds.list();
    expect(hold!.blockIds.map((ids) => ids.filter((id) => id !== 0).length)).toEqual([4, 4, 13]);
    const told = cluster.p.finishOf('x')!.kvTransferParams!;
    expect(told.remote_block_ids!.map((ids) => ids.length)).toEqual([4, 4, 13]);
    expect(told.remote_block_ids!.flat()).not.toContain(0);
    // Blocks that are not handed over are free.
    expect(cluster.p.core.inspect.stats().usedBlocks).toBe(4 + 4 + 13);
    await cluster.release();
  });

  it.each(['pull', 'streamed'] as const)(
    '%s: D fetches exactly the blocks that its last token sees',
    async (handover) => {
      // At 49 tokens token 48 is computed again and sees 37 to 48: four blocks. At 48 token 47 sees 36 to 47: three.
      for (const [length, windowed] of [
        [47, 4],
        [48, 3],
        [49, 4],
        [50, 4],
      ] as const) {
        const cluster = new PolicyCluster(sizes, sizes);
        cluster.handover = handover;
        await play(cluster, 't', tokens(length), null);
        expect([length, cluster.net.blocksMoved]).toEqual([length, 2 * windowed + Math.ceil(length / 4)]);
        await cluster.release();
      }
    },
  );
});

describe('D to P', () => {
  /** Serves two turns. `edit` makes the second prompt from the first turn's tokens. Without P's cache, all must come from D. */
  async function second(edit: (history: number[]) => number[], prefixCaching = false) {
    const cluster = new PolicyCluster({ ...sizes, prefixCaching }, sizes);
    const first = await play(cluster, '1', tokens(60), null);
    // D has KV of 69 tokens; for windowed groups, from token 56 on.
    const prompt = edit([...tokens(60), ...first.output]);
    const { account } = await play(cluster, '2', prompt, first.params);
    await cluster.release();
    for (const node of [cluster.p, cluster.d]) expect(node.core.resetPrefixCache()).toBe(true);
    return account;
  }
  const more = tokens(9, 7);
  const changedAt = (place: number) => (history: number[]) => [
    ...history.slice(0, place),
    (history[place]! + 1) % 97,
    ...history.slice(place + 1),
    ...more,
  ];
  const recomputed = (reason: string) => ({ pulledTokens: 0, noPull: { by: 'offer', reason } });

  it('an unchanged history is pulled, including its windows', async () => {
    expect(await second((history) => [...history, ...more])).toMatchObject({
      pulledTokens: 69,
      noPull: null,
    });
  });

  it('a history edited only at its last token, which has no KV yet, is pulled', async () => {
    expect(await second(changedAt(69))).toMatchObject({ pulledTokens: 69, noPull: null });
  });

  it('a history edited within the window is not pulled, because the window before the edit is gone', async () => {
    expect(await second(changedAt(65))).toMatchObject(
      recomputed(
        'the window of KV cache group 0 that ends at token 65 is gone at the holder (first differing token at 65)',
      ),
    );
  });

  it('a history edited so late that D still has the whole window is pulled up to the edit', async () => {
    // Position 68 sees 57 to 68.
    expect(await second(changedAt(68))).toMatchObject({ pulledTokens: 68, noPull: null });
  });

  it('a history edited before the window, or cut short, is not pulled', async () => {
    expect(await second(changedAt(20))).toMatchObject(
      recomputed(
        'the window of KV cache group 0 that ends at token 20 is gone at the holder (first differing token at 20)',
      ),
    );
    expect(await second((history) => history.slice(0, 30))).toMatchObject(
      recomputed('the window of KV cache group 0 that ends at token 30 is gone at the holder'),
    );
  });

  it("a history edited within the window is pulled if P's own blocks have the rest of the window", async () => {
    // P computed 60 tokens itself and has the last of their windows; D brings 60 to 66.
    expect(await second(changedAt(67), true)).toMatchObject({
      localHitTokens: 60,
      pulledTokens: 7,
      noPull: null,
    });
  });

  it('after a pull that fails half way, P computes the whole prompt', async () => {
    const cluster = new PolicyCluster({ ...sizes, prefixCaching: false }, sizes);
    const first = await play(cluster, '1', tokens(60), null);
    cluster.net.failsNext = () => true;
    const prompt = [...tokens(60), ...first.output, ...more];
    const turn = cluster.turn('2', prompt, { maxTokens: 10 }, first.params);
    let done = false;
    void turn.then(() => {
      done = true;
    });
    await cluster.runUntil(() => {
      if (cluster.p.promptOf('2-p')) cluster.net.failsNext = () => false;
      return done;
    });
    const account = cluster.p.promptOf('2-p')!;
    expect(account).toMatchObject({ pulledTokens: 0, computedTokens: prompt.length });
    expect(account.noPull!.reason).toMatch(/^pull failed/);
    await cluster.release();
  });

  it('after a pull beyond a local hit fails, tokens are still right with a window of one token', async () => {
    const narrow = { ...sizes, groups: [sliding(1), full] };
    const cluster = new PolicyCluster(narrow, narrow);
    const first = await play(cluster, '1', tokens(60), null);
    cluster.net.failsNext = () => true;
    // P has the first turn's prompt, and D its output.
    const prompt = [...tokens(60), ...first.output, ...more];
    const { account } = await play(cluster, '2', prompt, first.params);
    expect(account.pulledTokens).toBe(0);
    await cluster.release();
  });

  it('parameters with too few lists of remote blocks are refused, with both counts', () => {
    const params: KvTransferParams = {
      do_remote_decode: true,
      do_remote_prefill: false,
      remote_block_ids: [[1, 2]],
      remote_num_tokens: 8,
      remote_token_ids: tokens(8),
    };
    const rules = { blockSize: 4, groups, tokenCheck: true };
    expect(usableTokens(params, tokens(9), 0, rules)).toEqual({
      tokens: 0,
      limit: 'invalid kv_transfer_params: 1 lists of remote blocks for 3 KV cache groups',
    });
  });
});

describe('lists of block ids', () => {
  const params = (lists: number[][], numTokens: number): KvTransferParams => ({
    do_remote_decode: true,
    do_remote_prefill: false,
    remote_block_ids: lists,
    remote_num_tokens: numTokens,
  });

  it('of a windowed group end where the sequence ends, and null blocks are not paired', () => {
    const rules = { blockSize: 4, groups: [sliding(5), full] };
    const table = remoteTable(
      params(
        [
          [21, 22],
          [1, 2, 3, 4],
        ],
        14,
      ),
      tokens(20),
      rules,
    );
    expect(table).toEqual([
      [0, 0, 21, 22],
      [1, 2, 3, 4],
    ]);
    const local = [
      [0, 0, 7, 8],
      [3, 4, 5, 6],
    ];
    expect(
      pairBlocks(table, local, 0, 14, 4).map(({ group, remote, local: to }) => [group, remote, to]),
    ).toEqual([
      [0, 21, 7],
      [0, 22, 8],
      [1, 1, 3],
      [1, 2, 4],
      [1, 3, 5],
      [1, 4, 6],
    ]);
    // Older lists have full length, with null where the window has passed.
    expect(
      remoteTable(
        params(
          [
            [0, 0, 21, 22],
            [1, 2, 3, 4],
          ],
          14,
        ),
        tokens(20),
        rules,
      ),
    ).toEqual(table);
    expect(pairBlocks([[0, 9]], [[5, 6]], 0, 8, 4)).toEqual([{ group: 0, remote: 9, local: 6 }]);
  });
});

it('each turn of a conversation pulls the whole history that has KV, with various windows', async () => {
  for (const [seed, specs] of [
    [1, [sliding(3), full]],
    [2, [full, sliding(17), sliding(6)]],
    [3, [sliding(9)]],
  ] as const) {
    const cluster = new PolicyCluster(
      { ...sizes, groups: specs, prefixCaching: false },
      { ...sizes, groups: specs },
    );
    let history: number[] = [];
    let params: KvTransferParams | null = null;
    for (let turn = 0; turn < 6; turn++) {
      const prompt = [...history, ...tokens(5 + turn, chain(seed, turn))];
      const served = await play(cluster, `t${turn}`, prompt, params);
      if (turn > 0) expect(served.account.pulledTokens).toBe(history.length - 1);
      history = [...prompt, ...served.output];
      params = served.params;
    }
    await cluster.release();
  }
});
