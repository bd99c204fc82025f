/** A store for a model with windows, policy only: what it keeps of each KV cache group, and when that serves as a prefix. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig } from '../../src/config/connectors.ts';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { COMPOSITIONS } from '../../src/config/kv-connectors.ts';
import type { KvTransferParams } from '../../src/config/kv-transfer.ts';
import type { PromptAccount } from '../../src/engine/types.ts';
import { alone, request, type Sizes, someGroups, tokens } from '../engine/fakes.ts';
import { serveAtOnce, turnsAtOnce } from './concurrent-turns.ts';
import { PolicyCluster } from './policy-cluster.ts';
import type { Changes } from './scripted.ts';

const sliding = (window: number): KvCacheSpec => ({ kind: 'sliding', window });
/** The full group is last, as in Gemma; a window is three blocks. */
const groups: readonly KvCacheSpec[] = [sliding(12), sliding(12), { kind: 'full' }];
const SIZES: Sizes = { blockSize: 4, groups, numBlocks: 400, maxNumBatchedTokens: 32, prefixCaching: false };

const through = (changes: Partial<OffloadingConfig> = {}): Changes => ({
  name: 'OffloadingConnector',
  offloading: { ...OFFLOADING_DEFAULTS, ...changes },
});
const composed = (composition: (typeof COMPOSITIONS)[number]): Changes => ({
  name: 'MultiConnector',
  multi: { composition, names: ['NixlConnector', 'OffloadingConnector'] },
  offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
});
const clusterWith = (connector: Changes, slots = 500, sizes = SIZES) =>
  new PolicyCluster(sizes, sizes, connector, slots);

async function serve(
  cluster: PolicyCluster,
  id: string,
  prompt: readonly number[],
  params: KvTransferParams | null = null,
) {
  const served = await cluster.finish(cluster.turn(id, prompt, { maxTokens: 10 }, params));
  await cluster.settle();
  expect(served.output).toEqual(await alone(prompt, { maxTokens: 10 }));
  return served;
}

const split = ({ pulledTokens, computedTokens }: PromptAccount) => [pulledTokens, computedTokens];
const atP = (cluster: PolicyCluster, id: string) => split(cluster.p.promptOf(`${id}-p`)!);

function nothingStays(cluster: PolicyCluster): void {
  cluster.store!.catalog.checkIntegrity();
  expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
  expect([cluster.store!.catalog.inUse, cluster.store!.service.leases]).toEqual([0, 0]);
}

describe('a store for a model with windows', () => {
  it('keeps all blocks of a full group and the last window of others, and D loads as many', async () => {
    const cluster = clusterWith(through());
    await serve(cluster, 't', tokens(50));
    // 12 whole blocks, and 3 of each window.
    expect(cluster.store!.catalog.size).toBe(12 + 2 * 3);
    expect(cluster.p.store!.counters).toMatchObject({ savedBlocks: 18, savedBytes: 18 });
    expect(split(cluster.d.promptOf('t-d')!)).toEqual([48, 2]);
    expect(cluster.d.store!.counters.loadedTokens).toBe(48);
    // Token 48 sees 37 to 48: the blocks from 9 on. Once saved, once loaded.
    expect(cluster.net.blocksMoved).toBe(18 + 18);
    nothingStays(cluster);
  });

  it('gives D all but the last token of a prompt that ends with a full block', async () => {
    for (const window of [12, 13, 9]) {
      const sizes = { ...SIZES, groups: [sliding(window), groups[2]!] };
      const cluster = clusterWith(through(), 500, sizes);
      await serve(cluster, 't', tokens(48));
      expect(split(cluster.d.promptOf('t-d')!)).toEqual([47, 1]);
      nothingStays(cluster);
    }
  });

  it("gives the next turn the last one's prompt, and its output if that is saved too", async () => {
    for (const promptOnly of [true, false]) {
      const cluster = clusterWith(through({ promptOnly }));
      const { output } = await serve(cluster, 'a', tokens(50));
      const before = cluster.store!.catalog.size;
      await serve(cluster, 'b', [...tokens(50), ...output, ...tokens(20, 7)]);
      // 59 tokens fill 14 whole blocks.
      expect(atP(cluster, 'b')[0]).toBe(promptOnly ? 48 : 56);
      expect(before).toBe(promptOnly ? 12 + 2 * 3 : 14 + 2 * (3 + 2));
      nothingStays(cluster);
    }
  });

  it('gives a prompt a prefix only where an earlier prompt ended, because only there it has windows', async () => {
    const cluster = clusterWith(through());
    await serve(cluster, 'a', tokens(50));
    await serve(cluster, 'b', [...tokens(40), ...tokens(20, 7)]);
    expect(atP(cluster, 'b')).toEqual([0, 60]);
    await serve(cluster, 'c', [...tokens(48), ...tokens(9, 8)]);
    expect(atP(cluster, 'c')).toEqual([48, 9]);
    // A shorter prompt of the same text adds windows at its own end.
    await serve(cluster, 'd', tokens(30));
    await serve(cluster, 'e', [...tokens(30), ...tokens(9, 9)]);
    expect(atP(cluster, 'e')).toEqual([28, 11]);
    nothingStays(cluster);
  });

  it('reads no block that it has, and gives none that no token sees', async () => {
    const cluster = clusterWith(through({ promptOnly: false }));
    const { output } = await serve(cluster, 'a', tokens(50));
    const { taken } = cluster.store!.service.counters;
    await serve(cluster, 'b', tokens(50));
    expect(cluster.store!.service.counters.taken).toBe(taken);
    const moved = cluster.net.blocksMoved;
    const { loadedTokens } = cluster.p.store!.counters;
    await serve(cluster, 'c', [...tokens(50), ...output.slice(0, 7), ...tokens(1, 3)]);
    // The store has 56 of the prompt's 58 tokens: P and D each load 14 blocks plus 3 per window, and save only D's output.
    expect(cluster.p.store!.counters.loadedTokens - loadedTokens).toBe(56);
    const saved = cluster.store!.service.counters.taken - taken;
    expect(cluster.net.blocksMoved - moved).toBe(2 * (14 + 2 * 3) + saved);
  });

  it('keeps only the last window if all layers have windows', async () => {
    const cluster = clusterWith(through(), 500, { ...SIZES, groups: [sliding(12)] });
    await serve(cluster, 'a', tokens(50));
    expect(cluster.store!.catalog.size).toBe(3);
    await serve(cluster, 'b', [...tokens(50), ...tokens(20, 7)]);
    expect(atP(cluster, 'b')).toEqual([48, 22]);
    nothingStays(cluster);
  });

  it('gives whole chunks of requests saved whole, up to max_load_tokens', async () => {
    const cluster = clusterWith(through({ blocksPerChunk: 5, saves: 'whole' }));
    // The prompts' windows end at blocks 12 and 10; of these, 10 is the end of a chunk.
    await serve(cluster, 'a', tokens(50));
    await serve(cluster, 'b', tokens(41));
    await serve(cluster, 'c', tokens(50));
    expect(atP(cluster, 'c')).toEqual([40, 10]);
    const params = { do_remote_decode: false, do_remote_prefill: false, max_load_tokens: 43 };
    cluster.p.add(request('x', tokens(50), { maxTokens: 1 }, { kvTransferParams: params }));
    await cluster.runUntil(() => cluster.p.finishOf('x') !== null);
    await cluster.settle();
    expect(split(cluster.p.promptOf('x')!)).toEqual([40, 10]);
    nothingStays(cluster);
  });

  it('does not read blocks that a window freed before, and keeps nothing in their place', async () => {
    const cluster = clusterWith(through());
    cluster.p.add(request('x', tokens(50), { maxTokens: 40 }));
    await cluster.runUntil(() => cluster.p.promptOf('x') !== null);
    // From here on, nothing arrives until twenty tokens have been generated.
    while (cluster.p.tokensOf('x').length < 20) await cluster.p.step();
    await cluster.runUntil(() => cluster.p.finishOf('x') !== null);
    await cluster.settle();
    expect(cluster.store!.catalog.size).toBe(12);
    await serve(cluster, 'a', tokens(50));
    expect(atP(cluster, 'a')).toEqual([0, 50]);
    nothingStays(cluster);
  });

  it("gives what it had, with composition 'compose', a peer the rest, and nothing makes two hops", async () => {
    const cluster = clusterWith(composed('compose'));
    const first = await serve(cluster, 'a', tokens(50));
    const second = await serve(
      cluster,
      'b',
      [...tokens(50), ...first.output, ...tokens(20, 7)],
      first.params,
    );
    // D holds 59 tokens of it; the store has the prompt's 48.
    expect(atP(cluster, 'b')).toEqual([59, 21]);
    expect(cluster.p.store!.counters.loadedTokens).toBe(48);
    // D loads those from the store too, but of windows nothing, because the blocks that it needs lie beyond them.
    expect(cluster.d.store!.counters).toMatchObject({ loadedTokens: 48, twoHopBytes: 0 });
    expect(cluster.p.store!.counters.twoHopBytes).toBe(0);
    expect(second.params).not.toBeNull();
    await cluster.release();
    nothingStays(cluster);
  });

  it('changes no tokens and leaks nothing with random windows, sizes and connectors', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          groups: someGroups,
          slots: fc.integer({ min: 1, max: 150 }),
          numBlocks: fc.integer({ min: 130, max: 300 }),
          config: fc.record({
            promptOnly: fc.boolean(),
            blocksPerChunk: fc.integer({ min: 1, max: 3 }),
            saves: fc.constantFrom('blocks' as const, 'whole' as const),
          }),
          composition: fc.constantFrom(null, ...COMPOSITIONS),
          prefixCaching: fc.boolean(),
          load: turnsAtOnce(70),
        }),
        async ({ slots, numBlocks, config, composition, load, ...rest }) => {
          const connector = composition ? composed(composition) : through(config);
          const sizes = { ...SIZES, ...rest, numBlocks };
          const cluster = clusterWith(connector, slots, sizes);
          await serveAtOnce(cluster, { maxTokens: 14 }, load);
          await cluster.release();
          await cluster.settle();
          nothingStays(cluster);
        },
      ),
      { numRuns: 60 },
    );
  });
});
