/** The KV paths on a shared cluster of real engines: each gives the same tokens, and bytes move only along the path. */
import { expect, it } from 'vitest';
import type { CostProfile } from '../../src/config/cost-profile.ts';
import { PATHS, type PathName } from '../../src/config/paths.ts';
import { calibrate } from '../../src/lab/calibrate.ts';
import { ClusterTarget } from '../../src/lab/multiturn/cluster-target.ts';
import { pathChoice } from '../../src/lab/multiturn/paths.ts';
import { type ArmRound, runArm } from '../../src/lab/multiturn/rounds.ts';
import { compareTokens } from '../../src/measure/summaries/bench-comparison.ts';
import type { LinkSpec } from '../../src/transport/link.ts';
import { whileTesting } from '../while-testing.ts';
import { conversations, options } from './bench-load.ts';
import { startCluster, withCluster } from './cluster-fixture.ts';

const store = { bytes: 2 ** 22, eviction: 's3fifo', remote: true } as const;
const cluster = whileTesting(() => startCluster({ store }));

interface Way {
  /** Pool size of P and of D. */
  blocks?: number;
  link?: LinkSpec | null;
  costProfile?: CostProfile | null;
}

const serve = (
  name: PathName,
  { blocks = 128, link = null, costProfile = null }: Way = {},
  served = conversations,
): Promise<ArmRound> => {
  const path = { ...pathChoice(name, { offloadPromptOnly: true }), costProfile };
  const target = new ClusterTarget(cluster(), { temperature: 0 });
  const pools = { prefixCaching: blocks < 128, pBlocks: blocks, dBlocks: blocks, link };
  return runArm(cluster(), target, pools, { mode: path.mode, threshold: 4, path }, served, options);
};

it('every KV path gives the same tokens and moves bytes only along it; with `both`, no bytes take two hops', async () => {
  const ways: Partial<Record<PathName, ArmRound>> = {};
  for (const name of PATHS) ways[name] = await serve(name);
  const all = Object.entries(ways).map(([mode, { requests }]) => ({ mode, requests }));
  expect(all.map(({ requests }) => requests.length)).toEqual(PATHS.map(() => 9));
  expect(compareTokens(all)).toEqual({ tokens_identical: true, first_difference: null });

  const pulled = (name: PathName, edge: 'bytesPToD' | 'bytesDToP'): number =>
    ways[name]!.requests.reduce((sum, request) => sum + request[edge]!, 0);
  const carried = (name: PathName) => ways[name]!.carried!;
  for (const name of ['recompute', 'pull'] as const) {
    expect(pulled(name, 'bytesPToD')).toBeGreaterThan(0);
    expect(carried(name)).toMatchObject({
      storeToP: 0,
      storeToD: 0,
      pToStore: 0,
      dToStore: 0,
      storeBytes: 0,
    });
  }
  expect(pulled('recompute', 'bytesDToP')).toBe(0);
  expect(pulled('pull', 'bytesDToP')).toBeGreaterThan(0);
  for (const name of ['store', 'pd-reuse'] as const) {
    expect([pulled(name, 'bytesPToD'), pulled(name, 'bytesDToP')]).toEqual([0, 0]);
    expect(carried(name).storeToD).toBeGreaterThan(0);
    expect(carried(name).twoHops).toBeGreaterThan(0);
    expect(ways[name]!.counters!.heldForP).toBeNull();
  }
  expect(carried('store').dToStore).toBeGreaterThan(0);
  expect(carried('pd-reuse').dToStore).toBe(0);
  expect(carried('store').storeToP).toBeGreaterThan(carried('pd-reuse').storeToP);
  expect(carried('both')).toMatchObject({ twoHops: 0 });
  expect(carried('both').storeToP).toBeGreaterThan(0);
  // The first connector with a hit supplies everything: D loads what P saved to the store in the same turn.
  expect(carried('first-hit').twoHops).toBeGreaterThan(0);
  expect(pulled('both', 'bytesDToP')).toBeLessThan(pulled('pull', 'bytesDToP'));
  for (const name of ['store', 'pd-reuse', 'both'] as const) {
    expect(carried(name).savingBlockMs).toBeGreaterThan(0);
    expect(carried(name).storeBytes).toBeLessThanOrEqual(carried(name).storeCapacity);
  }
});

it('every KV path gives the same tokens in pools too small for all conversations and their holds', async () => {
  const ways = [];
  for (const name of PATHS) ways.push({ mode: name, ...(await serve(name, { blocks: 26 })) });
  const roomy = { mode: 'roomy', ...(await serve('recompute')) };
  expect(compareTokens([roomy, ...ways])).toEqual({ tokens_identical: true, first_difference: null });
  for (const { usedBlocks } of await cluster().stats()) expect(usedBlocks).toBe(0);
  await cluster().checkIntegrity();
});

it('measured store costs drive the cost-aware path with the same tokens, and settings are restored', async () => {
  const before = cluster().settings.connector;
  const profile = await calibrate(cluster(), { version: '0', date: 'now', quick: true, rounds: 1 });
  const { load, save, folder_read } = profile.store!;
  for (const { fixed_ms, ms_per_byte, samples } of [load, save]) {
    expect(samples).toBeGreaterThanOrEqual(2);
    expect(fixed_ms + ms_per_byte).toBeGreaterThan(0);
  }
  expect(folder_read).toBeNull();
  expect(cluster().settings.connector.name).toBe(before.name);
  const chosen = { mode: 'cost-aware', ...(await serve('cost-aware', { costProfile: profile })) };
  // If a load costs an hour, none is made.
  const store = { ...profile.store!, load: { ...load, fixed_ms: 3_600_000 } };
  const dear = { ...profile, store };
  const without = { mode: 'dear', ...(await serve('cost-aware', { costProfile: dear })) };
  expect(without.carried!.storeToP).toBe(0);
  const alone = { mode: 'recompute', ...(await serve('recompute')) };
  expect(compareTokens([alone, chosen, without])).toEqual({ tokens_identical: true, first_difference: null });
});

it('a link configured between paths also delays transfers through the store', async () => {
  const link = { name: 'slow', bytesPerSecond: 1e6, latencyMs: 60 };
  const { requests } = await serve('pd-reuse', { link }, conversations.slice(0, 1));
  // P's blocks take 60 ms to the store, and another 60 ms to D.
  for (const { sample } of requests) expect(sample.ttft_ms).toBeGreaterThanOrEqual(120);
});

it('a path through a store is refused when the cluster has none', async () => {
  await withCluster({}, async (without) => {
    const { connector } = pathChoice('store', { offloadPromptOnly: true });
    await expect(without.configure({ connector })).rejects.toThrow(/OffloadingConnector needs a store/);
  });
});
