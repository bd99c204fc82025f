/** An arm's counters cover the requests that are reported, not those before them. */
import { expect, test } from 'vitest';
import type { StoreCounters } from '../../../src/connector/types.ts';
import { plainFleet } from '../../../src/fleet/seats.ts';
import type { Cluster } from '../../../src/fleet/types.ts';
import type { EngineStats } from '../../../src/host/engine-report.ts';
import { pathChoice } from '../../../src/lab/multiturn/paths.ts';
import { runArm } from '../../../src/lab/multiturn/rounds.ts';
import { clientOptions } from './client-options.ts';
import { conversation, FakeTarget } from './fake-target.ts';

/** An engine whose every counter equals the turns sent; per turn, ten bytes and one block held for a second. */
function counting(target: FakeTarget): Cluster {
  const stats = async (): Promise<readonly EngineStats[]> => {
    const turns = target.sent.length;
    const use = { blocks: 1, peakBlocks: 7, blockMs: 1000 * turns, sinceMs: 500, atMs: 500 + 2000 * turns };
    const store: Partial<StoreCounters> = {
      ...{ loadedBytes: 10 * turns, savedBytes: 10 * turns, twoHopBytes: 10 * turns, savingBlockMs: turns },
    };
    const engine = {
      ...{ engineId: 'prefill-0', preemptions: turns, firstUseCompilations: turns, peakUsedBlocks: 1 },
      noPulls: { policy: turns, request: 0, offer: 0, transfer: 0, preemption: 0 },
      transfers: { holdsDropped: { prefill: turns, decode: 2 * turns } },
      ...{ holdUse: { prefill: use, decode: use }, store },
    };
    return [engine as unknown as EngineStats];
  };
  const info = { model: { blockBytes: 4096 }, engines: [{ engineId: 'prefill-0', role: 'prefill' }] };
  const storeStats = async () => null;
  const { seats, rolesets } = plainFleet({ prefill: 2, decode: 1 });
  // The second P has a pool of its own size.
  const fleet = {
    rolesets,
    seats: seats.map((seat) => (seat.name === 'prefill-1' ? { ...seat, own: { numBlocks: 20 } } : seat)),
  };
  const settings = { prefill: { numBlocks: 9 }, decode: { numBlocks: 7 }, fleet };
  return { info, settings, stats, storeStats, configure: async () => {} } as unknown as Cluster;
}

const pools = { prefixCaching: true, pBlocks: 9, dBlocks: 9 };
const arm = {
  ...{ mode: 'bidirectional' as const, threshold: 0 },
  path: pathChoice('store', { offloadPromptOnly: false }),
};

test.each([
  [false, 6],
  [true, 4],
])('with warm-up step %s, engine counters cover the %i reported requests', async (warmupStep, counted) => {
  const target = new FakeTarget();
  const list = [conversation('a', 3), conversation('b', 3)];
  const served = await runArm(
    counting(target),
    target,
    pools,
    arm,
    list,
    clientOptions({ warmupStep, auditor: null }),
  );
  expect(target.sent).toHaveLength(6);
  expect(served.requests).toHaveLength(counted);
  expect(served.counters).toMatchObject({
    heldForP: { blockMs: 1000 * counted, overMs: 2000 * counted, peakBlocks: 7 },
    ...{ preemptions: counted, firstUseCompilations: counted, noPulls: { policy: counted } },
    holdsDropped: { forD: counted, forP: 2 * counted },
  });
  expect(served.carried).toMatchObject({
    ...{ storeToP: 10 * counted, pToStore: 10 * counted, twoHops: 10 * counted, savingBlockMs: counted },
    ...{ pBlocks: 9 + 20, dBlocks: 7 },
  });
});
