/** Real engines under a seeded schedule of faults: no wrong tokens and no leftovers, and violations must be detected. */
import { expect, it } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { FAULTS, type FaultKind } from '../../src/faults/schedule.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import type { ClusterHooks } from '../../src/fleet/hooks.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { DRAIN_MS, type FaultRunOptions, runFaults } from '../../src/lab/faults/run.ts';
import { loadArchitecture } from '../../src/model/load.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';
import { TEST_ADAPTER } from '../adapter.ts';

/** Milliseconds: engines are replaced many times, and lost leases must expire. */
const long = { timeout: 600_000 };

const start = (options: ClusterOptions, hooks: ClusterHooks) =>
  EngineCluster.start(nodePlatform, options, systemClock, hooks);

async function run(changes: Partial<FaultRunOptions>) {
  const { software } = await useAdapter(TEST_ADAPTER);
  const architecture = await loadArchitecture('nano', null);
  return runFaults({
    faults: 4,
    seed: 1,
    kinds: Object.keys(FAULTS) as FaultKind[],
    pairs: 1,
    picks: null,
    patienceMs: 120_000,
    drainMs: DRAIN_MS,
    clock: systemClock,
    signal: new AbortController().signal,
    cluster: clusterOptions(parseRunConfig({ model: 'nano' }), architecture, software),
    start,
    onEpisode: () => {},
    ...changes,
  });
}

it.each([
  ['one P and one D', 1],
  ['two P and two D', 2],
])(
  'every turn under a hundred faults of %s gets the right tokens or a typed error, and no block stays held',
  long,
  async (_, pairs) => {
    const report = await run({ faults: 100, seed: 2026, pairs });
    expect(report.violations).toEqual([]);
    expect(report.faults).toBeGreaterThanOrEqual(100);
    // The faults must produce each kind of outcome.
    expect(report.turns.right).toBeGreaterThan(50);
    expect(report.turns.error).toBeGreaterThan(0);
    expect(report.turns.left).toBeGreaterThan(0);
    expect(report.enginesReplaced).toBeGreaterThan(0);
    // The engines of a single pair cannot be scaled down.
    expect(report.tallies.length).toBe(Object.keys(FAULTS).length - (pairs === 1 ? 1 : 0));
  },
);

it(
  'with checksums off, a flipped bit is reported as wrong tokens with a reduced set of faults',
  long,
  async () => {
    const { violations } = await run({
      faults: 40,
      kinds: ['flip'],
      start: (options, hooks) => start({ ...options, checksum: false, poison: false }, hooks),
    });
    expect(violations.map(({ kind }) => kind)).toContain('wrong tokens');
    // The first violation is reduced to the few of its four faults that cause it.
    const { picks, faults } = violations[0]!;
    expect(picks!.length).toBeLessThan(4);
    expect(faults.length).toBeLessThanOrEqual(picks!.length);
  },
);

/** Starts a cluster whose engine clients have some methods replaced by broken ones. */
const broken =
  (how: (engine: EngineClient) => Partial<EngineClient>): FaultRunOptions['start'] =>
  (options, hooks) =>
    start(options, {
      ...hooks,
      client: (engine) => {
        const client = hooks.client!(engine);
        const changed = how(client);
        return new Proxy(client, {
          get(_, name) {
            const value = Reflect.get(name in changed ? changed : client, name);
            return typeof value === 'function' ? value.bind(client) : value;
          },
        });
      },
    });

it('blocks that are never released are reported', long, async () => {
  const { violations } = await run({
    faults: 1,
    kinds: ['slow'],
    picks: [1],
    drainMs: 4000,
    start: broken(() => ({ release: async () => {} })),
  });
  expect(violations.map(({ kind }) => kind)).toContain('blocks held');
});
