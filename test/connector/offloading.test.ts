/** P, D and a store, policy only: what is saved, loaded, evicted and lost. Tokens must equal those of one engine alone. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS, type OffloadingConfig, STORE_ADDRESS } from '../../src/config/connectors.ts';
import type { PromptAccount } from '../../src/engine/types.ts';
import { alone, tokens } from '../engine/fakes.ts';
import { serveAtOnce, turnsAtOnce } from './concurrent-turns.ts';
import { PolicyCluster } from './policy-cluster.ts';

const sampling = { maxTokens: 10 };

function clusterWith(changes: Partial<OffloadingConfig> = {}, slots = 64, sizes = { prefixCaching: false }) {
  return new PolicyCluster(
    sizes,
    sizes,
    { name: 'OffloadingConnector', offloading: { ...OFFLOADING_DEFAULTS, ...changes } },
    slots,
  );
}

/** Serves a turn to its end, then delivers everything that is on its way. */
async function serve(
  cluster: PolicyCluster,
  id: string,
  prompt: readonly number[],
  salt: string | null = null,
) {
  const served = await cluster.finish(cluster.turn(id, prompt, sampling, null, null, salt));
  await cluster.settle();
  return served;
}

const split = ({ localHitTokens, pulledTokens, computedTokens }: PromptAccount) => [
  localHitTokens,
  pulledTokens,
  computedTokens,
];

describe('a store between P and D', () => {
  it('hands the prompt from P to D, and P holds nothing', async () => {
    const cluster = clusterWith();
    const prompt = tokens(70);
    const { output } = await serve(cluster, 't', prompt);
    expect(output).toEqual(await alone(prompt, sampling));
    expect(split(cluster.p.promptOf('t-p')!)).toEqual([0, 0, 70]);
    expect(split(cluster.d.promptOf('t-d')!)).toEqual([0, 64, 6]);
    expect(cluster.store!.service.counters).toMatchObject({ taken: 4, lost: 0, loads: 1 });
    expect(cluster.store!.catalog.inUse).toBe(0);
    expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
  });

  it("finds P's prompt for D even if D's lookup arrives before P's offers, by another port", async () => {
    const cluster = clusterWith();
    const { handlers } = cluster.net.node(STORE_ADDRESS)!;
    const hear = handlers.onNotification!;
    let late: (() => void)[] = [];
    let overtaken = 0;
    handlers.onNotification = (from, notification) => {
      if (from === cluster.p.engineId && notification.kind === 'store_offer') {
        late.push(() => hear(from, notification));
        return;
      }
      hear(from, notification);
      if (from !== cluster.d.engineId || notification.kind !== 'store_lookup') return;
      overtaken = late.length;
      cluster.net.post(() => {
        for (const arrive of late) arrive();
        late = [];
      });
    };
    const begunMs = cluster.clock.now();
    const { output } = await serve(cluster, 't', tokens(70));
    expect(output).toEqual(await alone(tokens(70), sampling));
    expect(overtaken).toBeGreaterThan(0);
    expect(split(cluster.d.promptOf('t-d')!)).toEqual([0, 64, 6]);
    expect(cluster.clock.now()).toBe(begunMs);
  });

  it("gives the next turn the prompt, and D's output only if that is saved too", async () => {
    for (const promptOnly of [true, false]) {
      const cluster = clusterWith({ promptOnly });
      const first = tokens(40);
      const { output } = await serve(cluster, 'a', first);
      const second = [...first, ...output, ...tokens(30, 7)];
      const again = await serve(cluster, 'b', second);
      expect(again.output).toEqual(await alone(second, sampling));
      // 40 prompt tokens are 2 blocks; with 9 of D's 10 tokens they are 3.
      expect(split(cluster.p.promptOf('b-p')!)).toEqual([0, promptOnly ? 32 : 48, promptOnly ? 48 : 32]);
    }
  });

  it('saves each block once', async () => {
    const cluster = clusterWith({ promptOnly: false });
    await serve(cluster, 'a', tokens(64));
    await serve(cluster, 'b', tokens(64));
    const { taken } = cluster.store!.service.counters;
    expect(taken).toBe(cluster.store!.catalog.size);
  });

  it('never gives blocks to a request with a different salt', async () => {
    const cluster = clusterWith();
    const prompt = tokens(64);
    await serve(cluster, 'a', prompt, 'alice');
    await serve(cluster, 'b', prompt, 'bob');
    expect(cluster.p.promptOf('b-p')!.pulledTokens).toBe(0);
    await serve(cluster, 'c', prompt, 'alice');
    expect(cluster.p.promptOf('c-p')!.pulledTokens).toBe(63);
  });

  it('saves blocks that were looked up twice, with a threshold of 2', async () => {
    const cluster = clusterWith({ storeThreshold: 2, handsOver: true });
    const prompt = tokens(64);
    // P looks up once, D a second time. D computes the prompt itself, and saves it.
    await serve(cluster, 'a', prompt);
    expect(cluster.d.promptOf('a-d')!.pulledTokens).toBe(0);
    await serve(cluster, 'b', prompt);
    expect(cluster.store!.service.counters.taken).toBe(4);
    await serve(cluster, 'c', prompt);
    expect(cluster.p.promptOf('c-p')!.pulledTokens).toBe(63);
  });

  it("saves a request at its end with saves 'whole', and gives nothing below the minimum to load", async () => {
    const cluster = clusterWith({ saves: 'whole', minLoadTokens: 64 });
    await serve(cluster, 'a', tokens(70));
    expect(cluster.store!.service.counters).toMatchObject({ offers: 1, taken: 4 });
    expect(cluster.d.promptOf('a-d')!.pulledTokens).toBe(64);
    await serve(cluster, 'b', tokens(40, 3));
    expect(split(cluster.d.promptOf('b-d')!)).toEqual([0, 0, 40]);
    expect(cluster.d.promptOf('b-d')!.noPull?.reason).toBe('32 < 64 tokens, the minimum to load');
  });

  it('gives whole chunks only', async () => {
    const cluster = clusterWith({ blocksPerChunk: 3 });
    const prompt = tokens(90);
    await serve(cluster, 'a', prompt);
    expect(cluster.d.promptOf('a-d')!.pulledTokens).toBe(48);
  });

  it('may end before, during or after a lookup, and the turn is served without it', async () => {
    for (const moment of [0, 3, 6, 9, 12, 15, 20]) {
      const cluster = clusterWith();
      const prompt = tokens(70);
      await serve(cluster, 'a', prompt);
      let served: Awaited<ReturnType<PolicyCluster['turn']>> | null = null;
      void cluster.turn('b', prompt, sampling, null).then((result) => {
        served = result;
      });
      let rounds = 0;
      await cluster.runUntil(() => {
        if (rounds++ === moment) cluster.store!.end();
        return served !== null;
      });
      expect(served!.output).toEqual(await alone(prompt, sampling));
      await cluster.settle();
      expect(cluster.p.core.hasWork() || cluster.d.core.hasWork()).toBe(false);
    }
  });

  it('changes no tokens and leaks nothing, with random evictions, preemptions, aborts and failing READs', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          slots: fc.integer({ min: 1, max: 30 }),
          blocks: fc.integer({ min: 14, max: 40 }),
          promptOnly: fc.boolean(),
          prefixCaching: fc.boolean(),
          load: turnsAtOnce(120),
        }),
        async ({ slots, blocks, promptOnly, prefixCaching, load }) => {
          const sizes = { prefixCaching, numBlocks: blocks, maxNumBatchedTokens: 48 };
          const cluster = new PolicyCluster(
            sizes,
            sizes,
            { name: 'OffloadingConnector', offloading: { ...OFFLOADING_DEFAULTS, promptOnly } },
            slots,
          );
          const pick = await serveAtOnce(cluster, sampling, load);
          await cluster.runUntil(() => !cluster.p.core.hasWork() && !cluster.d.core.hasWork(), { pick });
          await cluster.settle();
          cluster.store!.catalog.checkIntegrity();
          expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
          expect(cluster.store!.catalog.inUse).toBe(0);
          expect(cluster.store!.service.leases).toBe(0);
        },
      ),
      { numRuns: 60 },
    );
  });
});
