/** Tiers below a simulated store's memory: their times, where these come from, and when blocks leave them. */
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { FULL_GROUP } from '../../src/engine/kv-cache-spec.ts';
import type { StoreOptions } from '../../src/fleet/types.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { NAMED_COSTS, noCosts } from '../../src/simulate/costs/published.ts';
import { tierTimes } from '../../src/simulate/costs/tiers.ts';
import type { SimulationCosts } from '../../src/simulate/costs/types.ts';
import { HEAD_BYTES } from '../../src/store/block-file.ts';
import { BLOCK_BYTES, greedy, simulated, turn } from './simulated.ts';

const folder = (changes: Partial<NonNullable<StoreOptions['folder']>> = {}) => {
  const bytes = 100 * (BLOCK_BYTES + HEAD_BYTES);
  return { directory: 'nowhere', bytes, ttlMs: null, ingestion: 'ALL' as const, ...changes };
};
const server = (changes: Partial<NonNullable<StoreOptions['server']>> = {}) => {
  return { url: 'redis://nowhere', ttlMs: null, ingestion: 'ALL' as const, ...changes };
};

/** A load takes 11 ms, a read of the folder 3 and 1 per block, of the server 20 and 2 per block. */
const store: SimulationCosts['store'] = {
  ...{ loadMs: () => 11, saveMs: () => 5 },
  folder: { read: { fixedMs: 3, msPerByte: 1 / BLOCK_BYTES }, write: { fixedMs: 7, msPerByte: 0 } },
  server: { read: { fixedMs: 20, msPerByte: 2 / BLOCK_BYTES }, write: null },
};

/** Eight blocks of memory; P keeps no prefixes. */
const withBelow = (below: Partial<StoreOptions>, groups: readonly KvCacheSpec[] = FULL_GROUP) =>
  simulated(
    {
      connector: { name: 'OffloadingConnector', offloading: OFFLOADING_DEFAULTS },
      options: {
        prefill: { numBlocks: 200, enablePrefixCaching: false },
        store: { bytes: 8 * BLOCK_BYTES, eviction: 'lru', ...below },
      },
    },
    { stepMs: ({ prefillTokens }) => prefillTokens, store },
    { groups },
  );

const prompt = (from: number) => Array.from({ length: 70 }, (_, i) => 8 + from + i);

/** Three prompts of four blocks, so that the first leaves memory, then the first again after a pause; its TTFT. */
async function again(cluster: ReturnType<typeof withBelow>, pauseMs = 1000): Promise<number> {
  const ask = (conversationId: string, from: number) =>
    turn(cluster, { conversationId, promptTokenIds: prompt(from), sampling: greedy(2) });
  return cluster.run(
    (async () => {
      for (const [i, from] of [0, 100, 200].entries()) {
        await ask(`c${i}`, from);
        await cluster.clock.sleep(1000);
      }
      await cluster.clock.sleep(pauseMs);
      return (await ask('again', 0)).ttftMs;
    })(),
  );
}

describe('tiers below a simulated store', () => {
  it("give back blocks that left memory, in the folder's time, and count the reads", async () => {
    const cluster = withBelow({ folder: folder() });
    // Read in 3 + 4, loaded by P, which computes 6 tokens; D has its own prefix, and computes 6 too.
    const lookedUp = 3 + 4;
    const ttft = await again(cluster);
    expect(ttft).toBe(lookedUp + 11 + 6 + 6);
    const [tier] = cluster.store!.outcome(cluster.engines).tiers;
    expect(tier).toMatchObject({ medium: 'folder', blocks: 12 });
    // Four reads at once, whose bytes come one after the other; each write takes 7.
    expect(tier!.counters).toMatchObject({
      written: 12,
      writeMs: 84,
      read: 4,
      readMs: 3 * 4 + 1 + 2 + 3 + 4,
    });
  });

  it('hold and move what each block uses of its slot', async () => {
    const half: KvCacheSpec = { kind: 'full', filled: 0.5 };
    const bytes = 3 * 4 * (1.5 * BLOCK_BYTES + 2 * HEAD_BYTES);
    const cluster = withBelow({ folder: folder({ bytes }) }, [...FULL_GROUP, half]);
    // As above, with four blocks of half the size in addition.
    expect(await again(cluster)).toBe(3 + 4 + 2 + 11 + 6 + 6);
    const [tier] = cluster.store!.outcome(cluster.engines).tiers;
    expect(tier).toMatchObject({ blocks: 24, counters: { written: 24, read: 8, leftOut: 0 } });
  });

  it('ask the server for what the folder does not have', async () => {
    const cluster = withBelow({
      folder: folder({ bytes: 8 * (BLOCK_BYTES + HEAD_BYTES) }),
      server: server(),
    });
    // Lookup: 20; fetch: 20 and 2 per block.
    expect(await again(cluster)).toBe(20 + 28 + 11 + 6 + 6);
    const [near, far] = cluster.store!.outcome(cluster.engines).tiers;
    expect(near!.counters.read).toBe(0);
    expect(far).toMatchObject({ medium: 'server', counters: { read: 4, written: 12, outages: 0 } });
  });

  it('drop a block when its time to live ends on the virtual clock', async () => {
    // P computes and saves; D has its own prefix.
    const computed = 70 + 5 + 6;
    const cluster = withBelow({ folder: folder({ ttlMs: 10_000 }), server: server({ ttlMs: 10_000 }) });
    expect(await again(cluster, 1000)).toBeLessThan(computed);
    const late = withBelow({ folder: folder({ ttlMs: 10_000 }), server: server({ ttlMs: 10_000 }) });
    // The server's lookup finds nothing.
    expect(await again(late, 60_000)).toBe(20 + computed);
    expect(late.store!.outcome(late.engines).tiers[0]!.counters.expired).toBe(4);
  });

  it('get the blocks that their ingestion policy selects', async () => {
    const written = async (ingestion: 'ALL' | 'HOT' | 'EVICTED') => {
      const cluster = withBelow({ folder: folder({ ingestion }) });
      await again(cluster);
      return cluster.store!.outcome(cluster.engines).tiers[0]!.counters.written;
    };
    // Of the evicted blocks, four were loaded again, which evicted four more.
    expect(await written('ALL')).toBe(12);
    expect(await written('EVICTED')).toBe(8);
  });

  it('are refused if the folder has no room for a block', () => {
    expect(() => withBelow({ folder: folder({ bytes: BLOCK_BYTES }) })).toThrow(
      `the store's folder is limited to ${BLOCK_BYTES} bytes, but a block takes ${BLOCK_BYTES + HEAD_BYTES}`,
    );
  });
});

describe('the times of tiers', () => {
  const file = (below: object) =>
    linearCosts(
      simulationCostsSchema.parse({
        ...{ kvferry_simulation_costs: 1, name: 'test', source: 'measured', step: {} },
        store: { load: {}, save: {}, ...below },
      }),
    );

  it('have their source: that of the costs file if it has them, else assumed', () => {
    const costs = file({ folder: { read: { fixed_ms: 2, ms_per_byte: 3e-6 } } });
    expect(tierTimes(costs, 'folder')).toEqual({
      read: { fixedMs: 2, msPerByte: 3e-6 },
      write: { fixedMs: 2, msPerByte: 3e-6 },
      source: { read: 'measured', write: 'assumed' },
    });
    expect(tierTimes(costs, 'server').source).toEqual({ read: 'assumed', write: 'assumed' });
    const both = file({ server: { read: { fixed_ms: 1 }, write: { fixed_ms: 4 } } });
    expect(tierTimes(both, 'server')).toMatchObject({
      write: { fixedMs: 4 },
      source: { read: 'measured', write: 'measured' },
    });
    for (const medium of ['folder', 'server'] as const)
      expect(tierTimes(noCosts, medium).source).toEqual({ read: 'assumed', write: 'assumed' });
  });

  it('are zero with the costs `zero`', () => {
    const zero = NAMED_COSTS.zero!;
    for (const medium of ['folder', 'server'] as const) {
      const { read, write } = tierTimes(zero, medium);
      expect([read, write]).toEqual(Array.from({ length: 2 }, () => ({ fixedMs: 0, msPerByte: 0 })));
    }
    expect([zero.store!.loadMs(1e9), zero.store!.saveMs(1e9)]).toEqual([0, 0]);
  });
});
