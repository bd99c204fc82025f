/** A store in a simulated fleet: what its loads and saves take, where they go, and that nothing stays in use. */
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import type { SimulatedCluster } from '../../src/simulate/cluster.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { profileOf } from '../../src/simulate/costs/profile.ts';
import { noCosts } from '../../src/simulate/costs/published.ts';
import type { SimulationCosts } from '../../src/simulate/costs/types.ts';
import { poissonArrivals, serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { BLOCK_BYTES, type Fleet, greedy, simulated, turn } from './simulated.ts';

const ids = (count: number, from = 0) => Array.from({ length: count }, (_, i) => 8 + ((from + i) % 400));

/** P keeps no prefixes, so that the store has something to give. */
const uncached = { numBlocks: 200, enablePrefixCaching: false };
const alone: Fleet = {
  storeSlots: 100,
  connector: { name: 'OffloadingConnector', offloading: OFFLOADING_DEFAULTS },
  options: { prefill: uncached },
};

/** Serves the same prompt of four blocks and 6 tokens twice; the TTFT of both. */
async function twice(cluster: SimulatedCluster): Promise<number[]> {
  const ask = (conversationId: string) =>
    turn(cluster, { conversationId, promptTokenIds: ids(70), sampling: greedy(2) });
  return cluster.run(
    (async () => {
      const first = await ask('a');
      await cluster.clock.sleep(60_000);
      const second = await ask('b');
      return [first.ttftMs, second.ttftMs];
    })(),
  );
}

describe('loads and saves of a store', () => {
  const stepMs: SimulationCosts['stepMs'] = ({ prefillTokens }) => prefillTokens;

  it('take what the costs say, by their bytes', async () => {
    const asked: [string, number][] = [];
    const store = {
      loadMs: (bytes: number) => {
        asked.push(['load', bytes]);
        return 11;
      },
      saveMs: (bytes: number) => {
        asked.push(['save', bytes]);
        return 5;
      },
    };
    const cluster = simulated(alone, { stepMs, store });
    const [first, second] = await twice(cluster);
    // P computes in 70 and saves in 5; D loads four blocks in 11 and computes in 6. Then P loads; both compute in 6.
    expect(first).toBe(70 + 5 + 11 + 6);
    expect(second).toBe(11 + 6 + 6);
    const blocks = 4 * BLOCK_BYTES;
    expect(asked).toEqual([
      ['save', blocks],
      ['load', blocks],
      ['load', blocks],
    ]);
    const { engines, bytesToP, bytesToD, counters } = cluster.store!.outcome(cluster.engines);
    expect({ bytesToP, bytesToD }).toEqual({ bytesToP: blocks, bytesToD: blocks });
    // In the second turn, D finds its own prefix cached and loads nothing.
    expect(engines).toMatchObject({ loads: 2, loadedTokens: 128, savedBlocks: 4, loadMs: 22, saveMs: 5 });
    // In the first turn, P's four blocks take a second hop.
    expect(engines.twoHopBytes).toBe(blocks);
    expect(counters).toMatchObject({ lookups: 16, hits: 12, taken: 4, lost: 0 });
  });

  it('come after P is done, also with --handover streamed, which needs engines that read from each other', async () => {
    const streamed: Fleet = { ...alone, options: { ...alone.options, handover: 'streamed' } };
    const [one, other] = [simulated(alone, { stepMs }), simulated(streamed, { stepMs })];
    expect(await twice(other)).toEqual(await twice(one));
    expect(other.store!.outcome(other.engines).bytesToD).toBe(4 * BLOCK_BYTES);
  });

  it('take what a READ between engines takes, if costs say nothing of a store', async () => {
    const readMs = (bytes: number, tokens: number) => bytes / BLOCK_BYTES + tokens / 10;
    const [, second] = await twice(simulated(alone, { stepMs, readMs }));
    expect(second).toBeCloseTo(4 + 6.4 + 6 + 6);
  });

  it("pass over the engines' link if the store is remote, but not if it is local", async () => {
    const link = { name: 'test', bytesPerSecond: (4 * BLOCK_BYTES * 1000) / 8, latencyMs: 1 };
    const ttft = async (remote: boolean) => {
      const store = { bytes: 100 * BLOCK_BYTES, eviction: 's3fifo', remote } as const;
      const options = { ...alone.options, link, store };
      const cluster = simulated({ ...alone, options }, { stepMs });
      const [, second] = await twice(cluster);
      return { second, links: cluster.links.use().map(({ from, to }) => `${from} ${to}`) };
    };
    expect(await ttft(false)).toEqual({ second: 12, links: [] });
    expect(await ttft(true)).toEqual({
      second: 12 + 9,
      links: ['prefill-0 store', 'store decode-0', 'store prefill-0'],
    });
  });

  it.each([
    ['computing is expensive, so from the store and then from D', 10, 5, 1, { stored: 64, pulled: 20 }],
    ['a load is expensive, so all from D', 10, 1, 5000, { stored: 0, pulled: 84 }],
    ['a pull is expensive, so from the store alone', 10, 5000, 1, { stored: 64, pulled: 0 }],
    ['both are expensive, so all is computed', 1, 5000, 5000, { stored: 0, pulled: 0 }],
  ])('are chosen by cost if cost-aware: %s', async (_name, tokenMs, pullMs, loadMs, expected) => {
    const costs: SimulationCosts = {
      ...noCosts,
      stepMs: ({ prefillTokens, decodes }) => tokenMs * (prefillTokens + decodes),
      readMs: (bytes) => (pullMs * bytes) / BLOCK_BYTES,
      store: { loadMs: () => loadMs, saveMs: () => 1 },
    };
    const costProfile = profileOf(costs, {
      ...{ blockSize: 16, blockBytes: BLOCK_BYTES, groups: FULL_GROUP },
      ...{ maxNumBatchedTokens: 512, maxNumSeqs: 64 },
    });
    const connector = {
      name: 'MultiConnector',
      multi: { composition: 'cost-aware', names: ['NixlConnector', 'OffloadingConnector'] },
      offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
      costProfile,
    } as const;
    const cluster = simulated({ ...alone, connector }, costs);
    const prompt = ids(70);
    const second = await cluster.run(
      (async () => {
        const sampling = greedy(15);
        const first = await turn(cluster, { conversationId: 'a', promptTokenIds: prompt, sampling });
        await cluster.clock.sleep(60_000);
        const promptTokenIds = [...prompt, ...first.outputTokenIds, ...ids(30, 100)];
        return turn(cluster, { conversationId: 'a', promptTokenIds, sampling });
      })(),
    );
    const [p] = cluster.engines;
    const stored = p!.connector!.store!.counters.loadedTokens;
    expect({ stored, pulled: second.prompt.pulledTokens - stored }).toEqual(expected);
  });
});

const costs = linearCosts(
  simulationCostsSchema.parse({
    kvferry_simulation_costs: 1,
    name: 'test',
    source: 'assumed',
    step: { fixed_ms: 2.1, ms_per_prefill_token: 0.05, ms_per_decode: 0.2 },
    read: { fixed_ms: 1 },
    store: { load: { fixed_ms: 0.7, ms_per_byte: 1e-6 }, save: { fixed_ms: 3, ms_per_byte: 2e-6 } },
    submit_ms: 0.3,
    message_ms: 0.1,
  }),
);

describe('a store under load', () => {
  const composed = {
    name: 'MultiConnector',
    multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
    offloading: { ...OFFLOADING_DEFAULTS, handsOver: false, promptOnly: false },
  } as const;

  it.each<[string, Fleet]>([
    ['evictions, small pools', { blocks: 45, storeSlots: 30, connector: composed }],
    ['with handover', { prefill: 2, storeSlots: 60, connector: { name: 'AIBrixPDReuseConnector' } }],
  ])('answers all requests and keeps nothing in use, though an engine dies: %s', async (_name, fleet) => {
    const cluster = simulated(fleet, costs);
    const random = new Random(3);
    const conversations = Array.from({ length: 20 }, (_, i): BenchConversation => {
      const turns = Array.from({ length: random.int(1, 3) }, () => {
        const tokenIds = ids(random.int(16, 120), random.int(0, 3) * 100);
        return {
          content: { kind: 'tokens' as const, tokenIds },
          inputTokens: tokenIds.length,
          outputTokens: random.int(1, 40),
        };
      });
      return { id: `c${i}`, turns };
    });
    const collector = new Collector();
    const arrivals = poissonArrivals(conversations, { perSecond: 40, count: 20, seed: 1 });
    cluster.clock.after(150, () => cluster.fleet.engine('prefill').end('it is taken away'));
    cluster.fleet.replaceTheDead();
    await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 20, failover: true }));
    expect(collector).toMatchObject({ open: 0, failed: 0 });
    const { counts } = cluster.net;
    await cluster.until(() => counts.started === counts.ended && cluster.store!.inUse.blocks === 0);
    expect(cluster.store!.inUse).toEqual({ leases: 0, blocks: 0 });
    const { counters, blocks, slots } = cluster.store!.outcome(cluster.engines);
    expect(counters.stored - counters.evicted).toBe(blocks);
    expect(blocks).toBeLessThanOrEqual(slots);
    expect(counters.hits).toBeGreaterThan(20);
    if (fleet.storeSlots === 30) expect(counters.evicted).toBeGreaterThan(0);
  });
});
