/** A simulation never reads the machine's clock, and the same seed gives the same run. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it, vi } from 'vitest';
import { OFFLOADING_DEFAULTS } from '../../src/config/connectors.ts';
import type { AutoscaleChoice } from '../../src/router/autoscale/registry.ts';
import { VirtualClock } from '../../src/simulate/clock.ts';
import { linearCosts, simulationCostsSchema } from '../../src/simulate/costs/linear.ts';
import { poissonArrivals, serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { type SimulationWorld, simulateSeed } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { BLOCK_BYTES, type Fleet, fleetOptions, simulated } from './simulated.ts';

const costs = linearCosts(
  simulationCostsSchema.parse({
    kvferry_simulation_costs: 1,
    name: 'test',
    source: 'assumed',
    step: { fixed_ms: 3, ms_per_prefill_token: 0.05, ms_per_decode: 0.2, ms_per_decode_context: 0.0001 },
    read: { fixed_ms: 1, ms_per_byte: 1e-6 },
    submit_ms: 0.3,
    message_ms: 0.1,
    speeds: {
      prefill: [[1, 0.8], [0.6]],
      decode: [
        [1, 0.7],
        [0.9, 0.5],
      ],
    },
  }),
);

function conversations(count: number, seed: number): BenchConversation[] {
  const random = new Random(seed);
  const ids = (length: number) => Array.from({ length }, () => random.int(8, 400));
  return Array.from({ length: count }, (_, i) => ({
    id: `c${i}`,
    turns: Array.from({ length: random.int(1, 5) }, () => {
      const tokenIds = ids(random.int(1, 90));
      return {
        content: { kind: 'tokens', tokenIds },
        inputTokens: tokenIds.length,
        outputTokens: random.int(1, 30),
      };
    }),
  }));
}

async function run(fleet: Fleet, seed: number) {
  const cluster = simulated(fleet, costs, { sharing: 'fair' });
  const collector = new Collector();
  const arrivals = poissonArrivals(conversations(16, seed), { perSecond: 20, count: 16, seed });
  await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 100, failover: false }));
  expect(collector).toMatchObject({ open: 0, failed: 0 });
  const { started, ended } = cluster.net.counts;
  expect(started).toBe(ended);
  return {
    endMs: cluster.clock.now(),
    ttft: [...collector.column('ttftMs')],
    latency: [...collector.column('latencyMs')],
    start: [...collector.column('startMs')],
    hits: [...collector.column('localHitTokens')],
    transfers: cluster.transfers,
    slices: cluster.engines.map(({ meter }) => meter.slices()),
    links: cluster.links.use(),
    tiers: cluster.store?.outcome(cluster.engines).tiers ?? [],
  };
}

const link = { name: 'test', bytesPerSecond: 50e6, latencyMs: 0.5 };
const fleets: [string, Fleet][] = [
  ['2 P and 2 D over a link', { prefill: 2, decode: 2, options: { link } }],
  ['streamed', { prefill: 2, decode: 2, options: { link, handover: 'streamed' } }],
  ['pools that evict', { prefill: 1, decode: 1, blocks: 40 }],
  [
    'a store behind the link',
    {
      ...{ blocks: 60, storeSlots: 40 },
      connector: {
        name: 'MultiConnector',
        multi: { composition: 'compose', names: ['NixlConnector', 'OffloadingConnector'] },
        offloading: { ...OFFLOADING_DEFAULTS, handsOver: false },
      },
      options: { link, store: { bytes: 40 * BLOCK_BYTES, eviction: 'lru', remote: true } },
    },
  ],
  [
    'a store with a folder and a server below it',
    {
      ...{ blocks: 60, storeSlots: 20, connector: { name: 'OffloadingConnector' } },
      options: {
        prefill: { numBlocks: 60, enablePrefixCaching: false },
        store: {
          ...{ bytes: 20 * BLOCK_BYTES, eviction: 's3fifo' },
          folder: { directory: 'nowhere', bytes: 50 * BLOCK_BYTES, ttlMs: 700, ingestion: 'ALL' },
          server: { url: 'redis://nowhere', ttlMs: 900, ingestion: 'EVICTED' },
        },
      },
    },
  ],
  [
    'signals 50 ms old',
    { prefill: 2, decode: 2, options: { signalAgeMs: 50, routing: { name: 'llm-d', parameters: {} } } },
  ],
];

/** True in everything that withoutClocks calls, directly or later. */
const hasNoClock = new AsyncLocalStorage<boolean>();

/**
 * Runs `simulate`, in which the machine's clock and timers throw. Other work in the process, left by earlier tests,
 * keeps its clocks.
 */
async function withoutClocks<T>(simulate: () => Promise<T>): Promise<T> {
  const check = (): void => {
    if (hasNoClock.getStore()) throw new Error('the machine has no clock here');
  };
  const refusing = <Clock extends object>(real: Clock): Clock =>
    new Proxy(real, {
      apply(called, self, args) {
        check();
        return Reflect.apply(called as (...args: unknown[]) => unknown, self, args);
      },
      get(of, name) {
        if (name === 'now' || name === 'timeOrigin') check();
        const value: unknown = Reflect.get(of, name, of);
        return of === realPerformance && typeof value === 'function' ? value.bind(of) : value;
      },
    });
  const { performance: realPerformance } = globalThis;
  for (const name of ['Date', 'performance', 'setTimeout', 'setInterval'] as const)
    vi.stubGlobal(name, refusing<object>(globalThis[name]));
  try {
    return await hasNoClock.run(true, simulate);
  } finally {
    vi.unstubAllGlobals();
    // While it is enabled, every promise of the process costs more.
    hasNoClock.disable();
  }
}

describe('time in a simulation', () => {
  it.each(fleets)(
    "is never the machine's, repeats for the same seed, and differs for another: %s",
    async (_name, fleet) => {
      const [first, again, other] = await withoutClocks(
        async () => [await run(fleet, 3), await run(fleet, 3), await run(fleet, 4)] as const,
      );
      expect(first.endMs).toBeGreaterThan(500);
      for (const { counters } of first.tiers) {
        expect(counters.read).toBeGreaterThan(0);
        expect(counters.readMs).toBeGreaterThan(0);
      }
      expect(first.transfers.done).toBeGreaterThan(10);
      expect(again).toEqual(first);
      expect(other.ttft).not.toEqual(first.ttft);
      // Latency includes the last token, so no request ends before its first.
      first.latency.forEach((ms, i) => {
        expect(ms).toBeGreaterThanOrEqual(first.ttft[i]!);
      });
    },
  );

  const autoscale: AutoscaleChoice = {
    name: 'k8s-hpa',
    parameters: { prefill: { metric: 'in-flight', target: 1 }, decode: { metric: 'in-flight', target: 1 } },
    intervalMs: 500,
    bounds: { prefill: { min: 1, max: 3 }, decode: { min: 1, max: 3 } },
  };
  const faultPlan = { faults: 25, span: 40 };

  it.each<[string, Pick<SimulationWorld, 'autoscale' | 'faultPlan'>]>([
    ['an autoscaler', { autoscale }],
    ['faults', { faultPlan }],
    ['both', { autoscale, faultPlan }],
  ])("is never the machine's and repeats for the same seed with %s", async (_name, changes) => {
    const plan = {
      label: 'arm',
      options: fleetOptions({
        prefill: 2,
        decode: 2,
        options: { drain: { drain: 'migrate', holdsMs: 1000 } },
      }),
      load: {
        kind: 'arrivals',
        arrivals: (seed: number) =>
          poissonArrivals(conversations(60, seed), { perSecond: 20, count: 60, seed }),
        thinkMs: 100,
      },
    } as const;
    const world: SimulationWorld = {
      costs: { ...costs, startMs: 700 },
      ...{ groups: [{ kind: 'full' }], blockBytes: BLOCK_BYTES, sharing: 'fair', check: false, runs: true },
      ...{ tokenIds: [8, 500], seed: 3, seeds: 1, slo: { ttftMs: null, tpotMs: null } },
      nextTask: setImmediate,
      signal: new AbortController().signal,
      onProgress() {},
      ...changes,
    };
    const [first, again] = await withoutClocks(
      async () => [await simulateSeed(plan, world, 3), await simulateSeed(plan, world, 3)] as const,
    );
    expect(again).toEqual(first);
    if (changes.autoscale) expect(first.scaling.events.map(({ event }) => event)).toContain('joined');
    if (changes.faultPlan) expect(first.faults!.length).toBeGreaterThan(5);
  });

  it('runs events of one moment in scheduling order, and never a cancelled one', () => {
    const clock = new VirtualClock();
    const seen: string[] = [];
    const order = [5, 1, 5, 3, 1, 5, 0];
    for (const [i, ms] of order.entries()) clock.after(ms, () => seen.push(`${ms}.${i}`));
    const never = [4, 1, 5, 9].map((ms) => clock.after(ms, () => seen.push('never')));
    const late = clock.after(3, () => {
      clock.cancel(late);
      for (const timer of never) clock.cancel(timer);
    });
    clock.cancel(never[1]!);
    while (clock.next());
    expect(seen).toEqual(['0.6', '1.1', '1.4', '3.3', '5.0', '5.2', '5.5']);
    expect(clock.now()).toBe(5);
  });

  it('does not advance so far that it would lose its resolution', () => {
    const clock = new VirtualClock();
    clock.at(1e12, () => {});
    clock.at(1e300, () => {});
    expect(clock.next()).toBe(true);
    expect(() => clock.next()).toThrow(/^1e\+297 s is too long to simulate: wanted at most 10000000000 s/);
    expect(clock.now()).toBe(1e12);
  });

  it('reports an error if a run waits and no event is left', async () => {
    const cluster = simulated();
    await expect(cluster.run(new Promise(() => {}))).rejects.toThrow('with no event left');
  });
});
