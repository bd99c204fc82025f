/** The ways that KV can take, on real engines that stay: the same tokens by each, and every byte where the way says. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { CostProfile } from '../../src/config/cost-profile.ts';
import { PATHS, type PathName } from '../../src/config/paths.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import { calibrate } from '../../src/lab/calibrate.ts';
import { ClusterTarget } from '../../src/lab/multiturn/cluster-target.ts';
import { pathChoice } from '../../src/lab/multiturn/paths.ts';
import { type ArmRound, runArm } from '../../src/lab/multiturn/rounds.ts';
import { compareTokens } from '../../src/measure/bench-comparison.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import { generateConversations, parseGenerator } from '../../src/workload/generate.ts';
import { clientOptions } from '../lab/multiturn/client-options.ts';
import { testOptions } from './cluster-fixture.ts';

const spec = parseGenerator(
  {
    filetype: 'generate_conversations',
    num_conversations: 3,
    prompt_input: {
      num_turns: { distribution: 'constant', value: 6 },
      common_prefix_num_tokens: { distribution: 'constant', value: 16 },
      prefix_num_tokens: { distribution: 'uniform', min: 40, max: 90 },
      num_tokens: { distribution: 'uniform', min: 6, max: 12 },
    },
    prompt_output: { num_tokens: { distribution: 'uniform', min: 18, max: 24 } },
  },
  'spec',
);
const tokens = { kind: 'drawn', lowest: 8, highest: 511 } as const;
const conversations = generateConversations(spec, { scale: 1, seed: 5, tokens });
const options = clientOptions({ numClients: 2, maxActive: 3, seed: 5, now: () => performance.now() });

/** Every way, one after the other. */
vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 });

let cluster: EngineCluster;
beforeAll(async () => {
  await useAdapter(process.env.KVFERRY_ADAPTER ?? 'swiftshader');
  cluster = await EngineCluster.start(nodePlatform, {
    ...testOptions,
    store: { bytes: 2 ** 22, eviction: 's3fifo', remote: true },
  });
});
afterAll(() => cluster?.close());

const serve = (
  name: PathName,
  pBlocks = 128,
  dBlocks = 128,
  costProfile: CostProfile | null = null,
): Promise<ArmRound> => {
  const path = { ...pathChoice(name, { offloadPromptOnly: true }), costProfile };
  const target = new ClusterTarget(cluster, { temperature: 0 });
  const pools = { prefixCaching: pBlocks < 128, pBlocks, dBlocks, link: null };
  return runArm(cluster, target, pools, { mode: path.mode, threshold: 4, path }, conversations, options);
};

it('every way gives the same tokens; its bytes go where it says, and none travels twice where both are composed', async () => {
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
  // The first in the list gives all: D gets from the store what P put there in the same turn.
  expect(carried('first-hit').twoHops).toBeGreaterThan(0);
  expect(pulled('both', 'bytesDToP')).toBeLessThan(pulled('pull', 'bytesDToP'));
  for (const name of ['store', 'pd-reuse', 'both'] as const) {
    expect(carried(name).savingBlockMs).toBeGreaterThan(0);
    expect(carried(name).storeBytes).toBeLessThanOrEqual(carried(name).storeCapacity);
  }
});

it('from pools too small for all, with what is held in them, every way still gives those tokens', async () => {
  const ways = [];
  for (const name of PATHS) ways.push({ mode: name, ...(await serve(name, 26, 26)) });
  const roomy = { mode: 'roomy', ...(await serve('recompute')) };
  expect(compareTokens([roomy, ...ways])).toEqual({ tokens_identical: true, first_difference: null });
  for (const { usedBlocks } of await cluster.stats()) expect(usedBlocks).toBe(0);
  await cluster.checkIntegrity();
});

it('what the tiers cost is measured, and chosen by, with the same tokens; all is set as before', async () => {
  const before = cluster.settings.connector;
  const profile = await calibrate(cluster, { version: '0', date: 'now', quick: true, rounds: 1 });
  const { load, save, folder_read } = profile.store!;
  for (const { fixed_ms, ms_per_byte, samples } of [load, save]) {
    expect(samples).toBeGreaterThanOrEqual(2);
    expect(fixed_ms + ms_per_byte).toBeGreaterThan(0);
  }
  expect(folder_read).toBeNull();
  expect(cluster.settings.connector.name).toBe(before.name);
  const chosen = { mode: 'cost-aware', ...(await serve('cost-aware', 128, 128, profile)) };
  // Where loads cost a second, none is made.
  const dear = { ...load, fixed_ms: 1000 };
  const store = { ...profile.store!, load: dear };
  const without = { mode: 'dear', ...(await serve('cost-aware', 128, 128, { ...profile, store })) };
  expect(without.carried!.storeToP).toBe(0);
  const alone = { mode: 'recompute', ...(await serve('recompute')) };
  expect(compareTokens([alone, chosen, without])).toEqual({ tokens_identical: true, first_difference: null });
});

it('a link set between ways lies before the store too', async () => {
  const path = pathChoice('pd-reuse', { offloadPromptOnly: true });
  const target = new ClusterTarget(cluster, { temperature: 0 });
  const slow = { name: 'slow', bytesPerSecond: 1e6, latencyMs: 60 };
  const pools = { prefixCaching: false, pBlocks: 128, dBlocks: 128, link: slow };
  const one = conversations.slice(0, 1);
  const { requests } = await runArm(
    cluster,
    target,
    pools,
    { mode: path.mode, threshold: 4, path },
    one,
    options,
  );
  // P's blocks reach the store 60 ms after they were sent, and D 60 ms after that.
  for (const { sample } of requests) expect(sample.ttft_ms).toBeGreaterThanOrEqual(120);
});

it('a way through a store is refused where there is none', async () => {
  const without = await EngineCluster.start(nodePlatform, testOptions);
  try {
    const { connector } = pathChoice('store', { offloadPromptOnly: true });
    await expect(without.configure({ connector })).rejects.toThrow(/OffloadingConnector needs a store/);
  } finally {
    await without.close();
  }
});
