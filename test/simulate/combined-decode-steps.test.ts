/** Decode steps computed together give the same as single steps, to the bit, even if much else happens as they end. */
import { describe, expect, it } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { type Arriving, poissonArrivals, serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { type Fleet, simulated } from './simulated.ts';

const costs = linearCosts(
  simulationCostsSchema.parse({
    kvferry_simulation_costs: 1,
    name: 'test',
    source: 'assumed',
    step: {
      fixed_ms: 2.137,
      ms_per_prefill_token: 0.0513,
      ms_per_decode: 0.217,
      ms_per_decode_context: 0.000113,
    },
    read: { fixed_ms: 1.01, ms_per_byte: 1.1e-6 },
    submit_ms: 0.31,
    reply_ms: 0.17,
    piece_ms: 30,
  }),
);

function conversations(random: Random, count: number): BenchConversation[] {
  return Array.from({ length: count }, (_, i) => ({
    id: `c${i}`,
    turns: Array.from({ length: random.int(1, 4) }, () => {
      const tokenIds = Array.from({ length: random.int(1, 120) }, () => random.int(8, 400));
      const outputTokens = random.float() < 0.2 ? 1 : random.int(1, 150);
      return { content: { kind: 'tokens', tokenIds }, inputTokens: tokenIds.length, outputTokens };
    }),
  }));
}

/** Everything takes a multiple of 5 ms, or no time. */
const tied = linearCosts(
  simulationCostsSchema.parse({
    kvferry_simulation_costs: 1,
    name: 'tied',
    source: 'assumed',
    step: { fixed_ms: 5 },
    read: { fixed_ms: 5 },
    piece_ms: 5,
  }),
);

function* onTheBeat(arrivals: Iterable<Arriving>): Generator<Arriving> {
  for (const arriving of arrivals) yield { ...arriving, atMs: 5 * Math.round(arriving.atMs / 5) };
}

async function run(fleet: Fleet, seed: number, runs: boolean, ties = false) {
  const cluster = simulated(fleet, ties ? tied : costs, { runs, check: seed === 1 });
  const collector = new Collector({ keyed: true });
  const random = new Random(seed);
  const drawn = poissonArrivals(conversations(random, 20), { perSecond: 12, count: 20, seed });
  const arrivals = ties ? onTheBeat(drawn) : drawn;
  await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 50, failover: false }));
  const columns = (
    ['startMs', 'ttftMs', 'latencyMs', 'localHitTokens', 'pulledTokens', 'bytesPToD'] as const
  ).map((key) => [...collector.column(key)]);
  const engines = cluster.engines.map(({ core, meter }) => {
    const { forwardPasses, preemptions, freeBlocks, prefixCache } = core.inspect.stats();
    return {
      forwardPasses,
      preemptions,
      freeBlocks,
      prefixCache,
      steps: meter.steps,
      rows: meter.decodeTokens,
    };
  });
  const busy = cluster.engines.map(({ meter }) => meter.mean()!);
  return {
    keys: collector.keys,
    errors: [...collector.errors],
    columns,
    engines,
    busy,
    events: cluster.events,
  };
}

const fleets: [string, Fleet][] = [
  ['P and D', {}],
  [
    'a store and NIXL',
    {
      ...{ blocks: 60, storeSlots: 80 },
      connector: {
        name: 'MultiConnector',
        multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
        offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
      },
    },
  ],
  ['small pools, which preempt and drop holds', { blocks: 45 }],
  ['streamed', { options: { handover: 'streamed' } }],
  ['monolithic', { decode: 2, options: { mode: 'monolithic' } }],
  ['2P2D by load', { prefill: 2, decode: 2, options: { routing: { name: 'llm-d', parameters: {} } } }],
  ['2P2D by rates', { prefill: 2, decode: 2, options: { routing: { name: 'aibrix-pd', parameters: {} } } }],
  [
    '2P2D by caches',
    { prefill: 2, decode: 2, blocks: 60, options: { routing: { name: 'prefix-cache', parameters: {} } } },
  ],
];

describe('decode steps computed together', () => {
  it.each(fleets)('give the results of single steps with fewer events: %s', async (_name, fleet) => {
    for (const [seed, ties] of [
      [1, false],
      [2, true],
      [3, true],
    ] as const) {
      const { events, busy, ...atOnce } = await run(fleet, seed, true, ties);
      const { events: more, busy: other, ...singly } = await run(fleet, seed, false, ties);
      expect(atOnce).toEqual(singly);
      expect(events).toBeLessThan(more);
      busy.forEach((mean, i) => {
        for (const key of ['busy', 'running', 'kvUsed'] as const)
          expect(mean[key]).toBeCloseTo(other[i]![key], 6);
      });
    }
  });
});
