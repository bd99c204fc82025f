/** A MultiConnector of NIXL and a store, policy only: which source gives what, what travels twice, and when blocks are freed. */
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig, STORE_ADDRESS } from '../../src/config/connectors.ts';
import { type CostProfile, costProfileSchema } from '../../src/config/cost-profile.ts';
import { COMPOSITIONS, type Composition } from '../../src/config/kv-connectors.ts';
import type { KvTransferParams, SingleConnectorName } from '../../src/config/kv-transfer.ts';
import { alone, chain, type Sizes, tokens } from '../engine/fakes.ts';
import { PolicyCluster, PolicyTransport } from './policy-cluster.ts';

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

/** Serves two turns. Returns, of P's second, the tokens by source; and the blocks that travelled twice, at 1 byte each. */
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

describe('P in the second turn, with 32 tokens in the store and 49 held by D', () => {
  it("with first-hit and the store first, as in vLLM, takes the store's 32 tokens and none of D's 49", async () => {
    expect(await secondTurn('first-hit', STORE_FIRST)).toMatchObject({
      fromD: 0,
      fromStore: 32,
      computedTokens: 48,
    });
  });

  it('with first-hit and NIXL first, takes all 49 tokens from D, and some blocks travel twice', async () => {
    const { twice, ...rest } = await secondTurn('first-hit', NIXL_FIRST);
    expect(rest).toEqual({ fromD: 49, fromStore: 0, computedTokens: 31 });
    expect(twice).toBeGreaterThan(0);
  });

  it('with max-hit, takes all from D, which has more than the store', async () => {
    expect(await secondTurn('max-hit', STORE_FIRST)).toMatchObject({
      fromD: 49,
      fromStore: 0,
      computedTokens: 31,
    });
  });

  it.each([NIXL_FIRST, STORE_FIRST])(
    'with compose and %s first, takes what the store has, the rest from D, and nothing twice',
    async (...names) => {
      expect(await secondTurn('compose', names as Names)).toEqual({
        fromD: 17,
        fromStore: 32,
        computedTokens: 31,
        twice: 0,
      });
    },
  );

  describe('with cost-aware, takes', () => {
    const priced = (pullMs: number, loadMs: number, msPerToken: number, blockMs = 0): CostProfile => ({
      ...profile,
      // A block is one byte here.
      pull: { overhead_ms: 0, fixed_ms: pullMs, ms_per_byte: blockMs },
      prefill: { fixed_ms: 0, ms_per_token: msPerToken, ms_per_token_context: 0 },
      store: {
        ...{ load: { fixed_ms: loadMs, ms_per_byte: 0, samples: 9 } },
        ...{ save: { fixed_ms: 1, ms_per_byte: 0, samples: 9 }, folder_read: null },
      },
    });

    it.each([
      [
        'from the store and then from D if both are cheap',
        priced(1, 1, 10, 5),
        { fromD: 17, fromStore: 32, computedTokens: 31 },
      ],
      ['from D alone if a load costs more than pulling', priced(1, 100, 10), { fromD: 49, fromStore: 0 }],
      [
        'from the store alone if a pull costs more than it saves',
        priced(400, 1, 10),
        { fromD: 0, fromStore: 32, computedTokens: 48 },
      ],
      [
        "from both at once over a link, though pulling D's 17 tokens alone would cost more than it saves",
        { ...priced(300, 250, 10, 20), link: { name: 'a link', bytes_per_second: 1e6, latency_ms: 1 } },
        { fromD: 17, fromStore: 32, computedTokens: 31 },
      ],
      [
        'nothing if computing is fastest',
        priced(50, 50, 0.1),
        { fromD: 0, fromStore: 0, computedTokens: 80 },
      ],
    ] as const)('%s', async (_, costs, expected) => {
      expect(await secondTurn('cost-aware', NIXL_FIRST, {}, costs)).toMatchObject(expected);
    });

    it('the same as with compose while it knows no costs', async () => {
      expect(await secondTurn('cost-aware', NIXL_FIRST)).toMatchObject({
        fromD: 17,
        fromStore: 32,
        twice: 0,
      });
    });
  });

  it("with compose and D's output saved too, takes 3 whole blocks from the store and one token from D", async () => {
    expect(await secondTurn('compose', NIXL_FIRST, { promptOnly: false })).toEqual({
      fromD: 1,
      fromStore: 48,
      computedTokens: 31,
      twice: 0,
    });
  });
});

it('blocks that are both held for a reader and being saved are freed once, when both have ended', async () => {
  const cluster = clusterWith('compose', NIXL_FIRST);
  // The store's READ is still on its way when D has read everything.
  await cluster.finish(cluster.turn('a', tokens(40), sampling, null));
  await cluster.release();
  await cluster.settle();
  expect(cluster.p.core.resetPrefixCache()).toBe(true);
  expect(cluster.store!.service.counters.taken).toBe(2);
});

it('a hold whose blocks are being saved too is not dropped, since that would free none; once they are saved, it is', async () => {
  const sizes = { prefixCaching: false, numBlocks: 11 };
  const cluster = clusterWith(
    'compose',
    NIXL_FIRST,
    { promptOnly: false },
    { prefixCaching: false },
    null,
    sizes,
  );
  const waiting: (() => void)[] = [];
  const { read } = PolicyTransport.prototype;
  // The store reads nothing from D for now.
  const reads = vi.spyOn(PolicyTransport.prototype, 'read').mockImplementation(async function (
    this: PolicyTransport,
    request,
  ) {
    if (this.identity.engineId === STORE_ADDRESS.engineId && request.remote.engineId === cluster.d.engineId)
      await new Promise<void>((resolve) => waiting.push(resolve));
    return read.call(this, request);
  });
  onTestFinished(() => reads.mockRestore());
  const held = () => cluster.d.holds.list().map(({ requestId }) => requestId);
  for (const [i, id] of ['a', 'b'].entries())
    await cluster.finish(cluster.turn(id, tokens(40, 1 + i), sampling, null));
  const third = cluster.turn('c', tokens(40, 3), sampling, null);
  await cluster.settle();
  expect([waiting.length, held()]).toEqual([2, ['a-d', 'b-d']]);
  for (const goOn of waiting) goOn();
  await cluster.finish(third);
  expect(held()).toEqual(['b-d', 'c-d']);
});

it('with random settings and failing READs, tokens are those of one engine alone, and nothing leaks', async () => {
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
  '%s: P holds nothing for a prompt that D had whole from the store before P computed it',
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
