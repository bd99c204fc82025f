/** Hundreds of turns with a store for few blocks: no state grows. Policy only, on a virtual clock. */
import { expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import { tokens } from '../engine/fakes.ts';
import { PolicyCluster } from './policy-cluster.ts';

const TURNS = 500;
const AT_ONCE = 25;
const SLOTS = 12;

it(`${TURNS} turns keep the store within its ${SLOTS} blocks, and leave no lease, hold or block in use`, async () => {
  const sizes = { prefixCaching: false };
  const cluster = new PolicyCluster(
    sizes,
    sizes,
    {
      name: 'MultiConnector',
      multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
      offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
    },
    SLOTS,
  );
  const { catalog, service } = cluster.store!;
  let most = 0;
  for (let first = 0; first < TURNS; first += AT_ONCE) {
    const turns = Array.from({ length: AT_ONCE }, (_, i) => {
      const turn = first + i;
      // Some prompts are repeated, most are not.
      const prompt = tokens(40, turn % 7 === 0 ? 3 : turn);
      return cluster.turn(`t${turn}`, prompt, { maxTokens: 2 }, null);
    });
    await cluster.finish(Promise.all(turns));
    most = Math.max(most, catalog.size);
    catalog.checkIntegrity();
    // These lists belong to the test, not to the engines.
    for (const { outputs, model } of [cluster.p, cluster.d]) outputs.length = model.batches.length = 0;
    cluster.taken.length = 0;
  }
  await cluster.release();
  await cluster.settle();
  expect(most).toBe(SLOTS);
  expect(catalog.counters.evicted).toBeGreaterThan(TURNS / 5);
  expect(catalog.counters.hits).toBeGreaterThan(TURNS / 10);
  expect([service.leases, catalog.inUse]).toEqual([0, 0]);
  catalog.checkIntegrity();
  expect(cluster.p.core.resetPrefixCache() && cluster.d.core.resetPrefixCache()).toBe(true);
});
