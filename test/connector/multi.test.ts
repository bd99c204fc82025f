/** A MultiConnector of NIXL and a store, policy only: who gives what, what travels twice, and who keeps blocks until when. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig } from '../../src/config/connectors.ts';
import { type CostProfile, costProfileSchema } from '../../src/config/cost-profile.ts';
import { COMPOSITIONS, type Composition } from '../../src/config/kv-connectors.ts';
import type { KvTransferParams, SingleConnectorName } from '../../src/config/kv-transfer.ts';
import { alone, chain, type Sizes, tokens } from '../engine/fakes.ts';
import { PolicyCluster } from './policy-cluster.ts';

const profile = costProfileSchema.parse({
  ...{ kvferry_cost_profile: 1, kvferry: '0.1.0', date: '2026-01-01T00:00:00.000Z', model: 'nano' },
  ...{
    weight_dtype: 'f16',
    adapter: 'an adapter',
    link: null,
    block_size: 16,
    block_bytes: 1,
    layout: 'contiguous',
  },
  pull: { overhead_ms: 0, fixed_ms: 0, ms_per_byte: 0 },
  prefill: { fixed_ms: 0, ms_per_token: 0, ms_per_token_context: 0 },
  fit: {
    ...{ samples: 9, rounds: 3, least_tokens: 16, most_tokens: 512, ttft_r2: 1, ttft_median_error: 0 },
    ...{ transfer_r2: 1, transfer_median_error: 0 },
  },
  recommended_threshold: null,
});
const sampling = { maxTokens: 10 };
type Names = readonly SingleConnectorName[];

function clusterWith(
  composition: Composition,
  names: Names,
  offloading: Partial<OffloadingConfig> = {},
  sizes: Sizes = { prefixCaching: false },
  costProfile: CostProfile | null = null,
  sizesOfD = sizes,
) {
  return new PolicyCluster(
    sizes,
    sizesOfD,
    {
      name: 'MultiConnector',
      multi: { composition, names },
      costProfile,
      offloading: { ...OFFLOADING_DEFAULTS, handsOver: false, ...offloading },
    },
    64,
  );
}

async function serve(
  cluster: PolicyCluster,
  id: string,
  prompt: readonly number[],
  remote: KvTransferParams | null = null,
) {
  const served = await cluster.finish(cluster.turn(id, prompt, sampling, remote));
  await cluster.settle();
  expect(served.output).toEqual(await alone(prompt, sampling));
  return served;
}

/** Two turns; of P's second: what came from D, from the store, and was computed; and bytes that travelled twice, in blocks. */
async function secondTurn(
  composition: Composition,
  names: Names,
  offloading: Partial<OffloadingConfig> = {},
  costProfile: CostProfile | null = null,
) {
  const cluster = clusterWith(composition, names, offloading, undefined, costProfile);
  const first = tokens(40);
  const { output, params } = await serve(cluster, 'a', first);
  const loadsBefore = cluster.p.store!.counters.loadedTokens;
  const { computedTokens, pulledTokens } = await serve(
    cluster,
    'b',
    [...first, ...output, ...tokens(30, 7)],
    params,
  ).then(() => cluster.p.promptOf('b-p')!);
  const stored = cluster.p.store!.counters.loadedTokens - loadsBefore;
  await cluster.release();
  expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
  expect(cluster.store!.catalog.inUse).toBe(0);
  const twice = cluster.p.store!.counters.twoHopBytes + cluster.d.store!.counters.twoHopBytes;
  return { fromD: pulledTokens - stored, fromStore: stored, computedTokens, twice };
}

const NIXL_FIRST: Names = ['NixlConnector', 'OffloadingConnector'];
const STORE_FIRST: Names = ['OffloadingConnector', 'NixlConnector'];

describe('P in the second turn: 40 prompt tokens are in the store as 2 blocks, D holds 49', () => {
  it("first-hit with the store first is vLLM's loss: two blocks there make it drop D's 49 tokens", async () => {
    expect(await secondTurn('first-hit', STORE_FIRST)).toMatchObject({
      fromD: 0,
      fromStore: 32,
      computedTokens: 48,
    });
  });

  it('first-hit with NIXL first: all from D, the store saves nothing on the way, and D gets of P what the store has', async () => {
    const { twice, ...rest } = await secondTurn('first-hit', NIXL_FIRST);
    expect(rest).toEqual({ fromD: 49, fromStore: 0, computedTokens: 31 });
    expect(twice).toBeGreaterThan(0);
  });

  it('max-hit: all from who has most', async () => {
    expect(await secondTurn('max-hit', STORE_FIRST)).toMatchObject({
      fromD: 49,
      fromStore: 0,
      computedTokens: 31,
    });
  });

  it.each([NIXL_FIRST, STORE_FIRST])(
    'compose, in either order: from the store what it has, the rest from D, nothing twice',
    async (...names) => {
      expect(await secondTurn('compose', names as Names)).toEqual({
        fromD: 17,
        fromStore: 32,
        computedTokens: 31,
        twice: 0,
      });
    },
  );

  describe('cost-aware takes what is cheapest', () => {
    const priced = (pullMs: number, loadMs: number, msPerToken: number, blockMs = 0): CostProfile => ({
      ...profile,
      // A block is a byte here.
      pull: { overhead_ms: 0, fixed_ms: pullMs, ms_per_byte: blockMs },
      prefill: { fixed_ms: 0, ms_per_token: msPerToken, ms_per_token_context: 0 },
      store: {
        ...{ load: { fixed_ms: loadMs, ms_per_byte: 0, samples: 9 } },
        ...{ save: { fixed_ms: 1, ms_per_byte: 0, samples: 9 }, folder_read: null },
      },
    });

    it.each([
      [
        'the store and then D, both being cheap',
        priced(1, 1, 10, 5),
        { fromD: 17, fromStore: 32, computedTokens: 31 },
      ],
      ['D alone, where a load is dearer than a longer pull', priced(1, 100, 10), { fromD: 49, fromStore: 0 }],
      [
        'the store alone, where a pull is dearer than what it spares',
        priced(400, 1, 10),
        { fromD: 0, fromStore: 32, computedTokens: 48 },
      ],
      [
        "both at once over a link, though 17 tokens of D's alone are dearer to pull than to compute",
        { ...priced(300, 250, 10, 20), link: { name: 'a link', bytes_per_second: 1e6, latency_ms: 1 } },
        { fromD: 17, fromStore: 32, computedTokens: 31 },
      ],
      [
        'nothing, where computing is quickest',
        priced(50, 50, 0.1),
        { fromD: 0, fromStore: 0, computedTokens: 80 },
      ],
    ] as const)('%s', async (_, costs, expected) => {
      expect(await secondTurn('cost-aware', NIXL_FIRST, {}, costs)).toMatchObject(expected);
    });

    it('and composes as long as it knows no costs', async () => {
      expect(await secondTurn('cost-aware', NIXL_FIRST)).toMatchObject({
        fromD: 17,
        fromStore: 32,
        twice: 0,
      });
    });
  });

  it("compose with D's output saved too: 3 whole blocks from the store, the token after them from D", async () => {
    expect(await secondTurn('compose', NIXL_FIRST, { promptOnly: false })).toEqual({
      fromD: 1,
      fromStore: 48,
      computedTokens: 31,
      twice: 0,
    });
  });
});

it('blocks that are both held for a reader and being saved are freed once, by the later of the two', async () => {
  const cluster = clusterWith('compose', NIXL_FIRST);
  // The store's READ stays on its way until D has taken all.
  await cluster.finish(cluster.turn('a', tokens(40), sampling, null));
  await cluster.release();
  await cluster.settle();
  expect(cluster.p.core.resetPrefixCache()).toBe(true);
  expect(cluster.store!.service.counters.taken).toBe(2);
});

it('whatever goes wrong in between: the tokens of one engine alone, and nothing stays', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        composition: fc.constantFrom(...COMPOSITIONS),
        names: fc.constantFrom(NIXL_FIRST, STORE_FIRST),
        promptOnly: fc.boolean(),
        prefixCaching: fc.boolean(),
        blocks: fc.integer({ min: 14, max: 40 }),
        handover: fc.constantFrom('pull' as const, 'streamed' as const),
        loses: fc.integer({ min: 0, max: 3 }),
        conversations: fc.array(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 }), {
          minLength: 1,
          maxLength: 4,
        }),
        picks: fc.infiniteStream(fc.nat(1000)),
      }),
      async ({
        composition,
        names,
        promptOnly,
        prefixCaching,
        blocks,
        handover,
        loses,
        conversations,
        picks,
      }) => {
        const sizes = { prefixCaching, numBlocks: blocks, maxNumBatchedTokens: 48 };
        const cluster = clusterWith(composition, names, { promptOnly }, sizes);
        cluster.handover = handover;
        let reads = 0;
        cluster.net.failsNext = () => loses > 0 && reads++ % 4 < loses;
        const pick = (count: number) => picks.next().value! % count;
        const turns: { prompt: number[]; output: number[]; ended: boolean }[] = [];
        const converse = async (lengths: readonly number[], of: number) => {
          let history: number[] = [];
          let params: KvTransferParams | null = null;
          for (const [i, length] of lengths.entries()) {
            const prompt = [...history, ...tokens(length, chain(of, i))];
            const { output, end, params: next } = await cluster.turn(`c${of}.${i}`, prompt, sampling, params);
            turns.push({ prompt, output, ended: end.finish?.reason === 'length' && output.length > 0 });
            history = [...prompt, ...output];
            params = next;
          }
        };
        await cluster.finish(Promise.all(conversations.map(converse)), { pick });
        for (const { prompt, output, ended } of turns)
          if (ended) expect(output).toEqual(await alone(prompt, sampling));
        await cluster.release();
        await cluster.settle();
        cluster.store!.catalog.checkIntegrity();
        expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
        expect([cluster.store!.catalog.inUse, cluster.store!.service.leases]).toEqual([0, 0]);
      },
    ),
    { numRuns: 60 },
  );
});

it.each(['pull', 'streamed'] as const)(
  '%s: of a prompt that D has whole from the store P holds nothing, though it computes it later',
  async (handover) => {
    const sizes = { prefixCaching: true, maxNumSeqs: 1, maxNumBatchedTokens: 16, maxModelLen: 1024 };
    const sizesOfD = { ...sizes, maxNumSeqs: 8, prefixCaching: false };
    const names: Names = ['NixlConnector', 'OffloadingConnector'];
    const cluster = clusterWith('compose', names, {}, sizes, null, sizesOfD);
    cluster.handover = handover;
    const prompt = tokens(48);
    await cluster.finish(cluster.turn('a', prompt, { maxTokens: 3 }, null), { idleMs: 10 });
    await cluster.settle();
    // P is busy with another prompt when the same one comes again.
    const other = cluster.turn('o', tokens(700, 9), { maxTokens: 2 }, null);
    await Promise.resolve();
    const again = cluster.turn('b', prompt, { maxTokens: 3 }, null);
    await cluster.finish(Promise.all([other, again]), { idleMs: 10 });
    await cluster.settle();
    expect(cluster.p.holds.list().filter(({ direction }) => direction === 'prefill')).toEqual([]);
  },
);
