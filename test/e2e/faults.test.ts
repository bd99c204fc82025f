/** Real engines under a seeded schedule of faults: nothing may be wrong or left over; and what is wrong must be seen. */
import { expect, it } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { FAULTS, type FaultKind } from '../../src/faults/schedule.ts';
import { EngineCluster } from '../../src/fleet/cluster.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import type { ClusterSeams } from '../../src/fleet/seams.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { DRAIN_MS, type FaultRunOptions, runFaults } from '../../src/lab/faults/run.ts';
import { loadArchitecture } from '../../src/model/load.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { nodePlatform, useAdapter } from '../../src/platform/node.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';

/** Milliseconds: engines are replaced many times, and a lost lease is waited for. */
const long = { timeout: 600_000 };

const start = (options: ClusterOptions, seams: ClusterSeams) =>
  EngineCluster.start(nodePlatform, options, systemClock, seams);

async function run(changes: Partial<FaultRunOptions>) {
  const { software } = await useAdapter(process.env.KVFERRY_ADAPTER ?? 'swiftshader');
  const architecture = await loadArchitecture('nano', null);
  return runFaults({
    faults: 4,
    seed: 1,
    kinds: Object.keys(FAULTS) as FaultKind[],
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

it('a hundred faults: right tokens or typed errors, and nothing is left', long, async () => {
  const report = await run({ faults: 100, seed: 2026 });
  expect(report.violations).toEqual([]);
  expect(report.faults).toBeGreaterThanOrEqual(100);
  // The storm must reach what it is for.
  expect(report.turns.right).toBeGreaterThan(50);
  expect(report.turns.error).toBeGreaterThan(0);
  expect(report.turns.left).toBeGreaterThan(0);
  expect(report.enginesReplaced).toBeGreaterThan(0);
  expect(report.tallies.length).toBe(Object.keys(FAULTS).length);
});

it('a flipped bit that no checksum finds is seen as wrong tokens', long, async () => {
  const { violations } = await run({
    faults: 40,
    kinds: ['flip'],
    start: (options, seams) => start({ ...options, checksum: false, poison: false }, seams),
  });
  expect(violations.map(({ kind }) => kind)).toContain('wrong tokens');
  // The first is told with as few of its four faults as were enough.
  const { picks, faults } = violations[0]!;
  expect(picks!.length).toBeLessThan(4);
  expect(faults.length).toBeLessThanOrEqual(picks!.length);
});

/** The engine as the router sees it, with some of it broken. */
const broken =
  (how: (engine: EngineClient) => Partial<EngineClient>): FaultRunOptions['start'] =>
  (options, seams) =>
    start(options, {
      ...seams,
      client: (engine) => {
        const client = seams.client!(engine);
        const changed = how(client);
        return new Proxy(client, {
          get(_, name) {
            const value = Reflect.get(name in changed ? changed : client, name);
            return typeof value === 'function' ? value.bind(client) : value;
          },
        });
      },
    });

it('blocks that nobody releases are seen', long, async () => {
  const { violations } = await run({
    faults: 1,
    kinds: ['slow'],
    picks: [1],
    drainMs: 4000,
    start: broken(() => ({ release: async () => {} })),
  });
  expect(violations.map(({ kind }) => kind)).toContain('blocks held');
});
