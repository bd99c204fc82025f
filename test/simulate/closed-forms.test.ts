/** Simulations against queueing theory, where it holds exactly, within the sampling error. */

import { mean, sampleStandardDeviation } from 'simple-statistics';
import { describe, expect, it } from 'vitest';
import type { EngineRole } from '../../src/router/engine-client.ts';
import { VirtualClock } from '../../src/simulate/clock.ts';
import type { SimulationCosts } from '../../src/simulate/costs/types.ts';
import { poissonArrivals, serveArrivals } from '../../src/simulate/load/load.ts';
import { QueuedResource, SharedResource } from '../../src/simulate/resources.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { serveLoad } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { simulated } from './simulated.ts';

const SERVICE_MS = 10;

/** Serves requests of one step each, one at a time on each of `servers` engines. */
async function queue(
  servers: number,
  rho: number,
  options: { count: number; exponential?: boolean; service?: (random: Random) => number; routing?: string },
) {
  const { count, exponential = false, routing = 'round-robin' } = options;
  const random = new Random(5);
  const fleet = {
    decode: servers,
    blocks: 60_000,
    options: {
      mode: 'monolithic',
      maxNumSeqs: 1,
      maxNumBatchedTokens: 64,
      routing: { name: routing, parameters: {} },
    },
  } as const;
  const { service = () => (exponential ? random.exponential(SERVICE_MS) : SERVICE_MS) } = options;
  const stepMs = () => service(random);
  const cluster = simulated(fleet, { stepMs }, { check: false });
  const conversations = Array.from({ length: count }, (_, i): BenchConversation => {
    const tokenIds = [8 + (i % 400), 8 + Math.floor(i / 400), 9];
    return {
      id: `c${i}`,
      turns: [{ content: { kind: 'tokens', tokenIds }, inputTokens: 3, outputTokens: 1 }],
    };
  });
  const collector = new Collector();
  const perSecond = (1000 * rho * servers) / SERVICE_MS;
  const arrivals = poissonArrivals(conversations, { perSecond, count, seed: 11 });
  await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
  const waits = collector.column('ttftMs');
  const meanMs = waits.reduce((sum, ms) => sum + ms, 0) / waits.length;
  const decoders = cluster.engines.filter(({ role }) => role === 'decode').map(({ meter }) => meter.mean()!);
  return { waitS: meanMs / SERVICE_MS - 1, meanMs, decoders, overMs: cluster.clock.now(), collector };
}

describe('a simulated queue', () => {
  it.each([0.3, 0.5, 0.8])('has the mean wait and the utilisation of M/D/1 at a load of %d', async (rho) => {
    const { waitS, decoders } = await queue(1, rho, { count: 8000 });
    expect(waitS).toBeGreaterThan((rho / (2 * (1 - rho))) * 0.9);
    expect(waitS).toBeLessThan((rho / (2 * (1 - rho))) * 1.1);
    expect(decoders[0]!.busy).toBeCloseTo(rho, 1);
  });

  it('has the mean wait of M/G/1 if services are short or long', async () => {
    const [rho, share, short, long] = [0.5, 0.5, 0.5, 1.5];
    const service = (random: Random) => SERVICE_MS * (random.float() < share ? short : long);
    const { waitS } = await queue(1, rho, { count: 5000, service });
    const secondMoment = share * short ** 2 + (1 - share) * long ** 2;
    const expected = (rho * secondMoment) / (2 * (1 - rho));
    expect(waitS / expected).toBeGreaterThan(0.9);
    expect(waitS / expected).toBeLessThan(1.1);
  });

  it('in a closed loop obeys clients = throughput × (response time + think time)', async () => {
    const [clients, thinkMs, count] = [6, 40, 1500];
    const options = { mode: 'monolithic', maxNumSeqs: 1, maxNumBatchedTokens: 64 } as const;
    const cluster = simulated({ blocks: 8000, options }, { stepMs: () => SERVICE_MS }, { check: false });
    const conversations = Array.from({ length: count }, (_, i): BenchConversation => {
      const tokenIds = [8 + (i % 400), 8 + Math.floor(i / 400), 9];
      return {
        id: `c${i}`,
        turns: [{ content: { kind: 'tokens', tokenIds }, inputTokens: 3, outputTokens: 1 }],
      };
    });
    const asking = {
      ...{ numClients: clients, maxActive: clients, maxRequests: null, maxTurns: null },
      ...{ requestRate: 1000 / thinkMs, pick: 'round_robin' as const, warmupStep: false, earlyStop: false },
      limitTokens: { min: 0, max: 0 },
    } as const;
    const collector = new Collector();
    const { signal } = new AbortController();
    const load = { kind: 'clients', conversations, clients: asking } as const;
    await cluster.run(serveLoad(cluster, load, collector, { seed: 3, signal }));
    const perMs = collector.count / collector.lastEndMs;
    const responseMs = mean([...collector.column('latencyMs')]);
    // The time in the queue is long enough to matter.
    expect(responseMs).toBeGreaterThan(1.5 * SERVICE_MS);
    expect((perMs * (responseMs + thinkMs)) / clients).toBeGreaterThan(0.96);
    expect((perMs * (responseMs + thinkMs)) / clients).toBeLessThan(1.04);
  });

  it('behind a random router has the mean wait of M/M/1 with one engine and with two', async () => {
    for (const servers of [1, 2]) {
      const { waitS } = await queue(servers, 0.5, { count: 20_000, exponential: true, routing: 'random' });
      expect(waitS).toBeGreaterThan(0.9);
      expect(waitS).toBeLessThan(1.1);
    }
  });

  it('has longer waits by round-robin than by least-request, both between one queue and separate ones', async () => {
    const one = 0.3333;
    const each = 1;
    const inTurn = await queue(2, 0.5, { count: 8000, exponential: true });
    const least = await queue(2, 0.5, { count: 8000, exponential: true, routing: 'least-request' });
    expect(inTurn.waitS).toBeLessThan(each * 0.95);
    expect(inTurn.waitS).toBeGreaterThan(least.waitS);
    expect(least.waitS).toBeGreaterThan(one);
  });

  it("obeys Little's law: requests present = arrival rate × time in the system", async () => {
    const { meanMs, decoders, overMs, collector } = await queue(2, 0.8, { count: 5000, exponential: true });
    const there = decoders.reduce((sum, { running, waiting }) => sum + running + waiting, 0);
    expect(there).toBeCloseTo((collector.count / overMs) * meanMs, 6);
  });
});

describe("DistServe's prefill queue, prompts of one length, one at a time", () => {
  const ALONE_MS = 10;
  const SEEDS = [1, 2, 3, 4, 5, 6];

  /** Mean TTFT where only P takes time: queue and prefill. */
  async function meanAtPrefill(prefillMs: number, perMs: number, seed: number): Promise<number> {
    const conversations = Array.from({ length: 1500 }, (_, i): BenchConversation => {
      const content = { kind: 'tokens', tokenIds: [8 + (i % 400), 8 + Math.floor(i / 400)] } as const;
      return { id: `c${i}`, turns: [{ content, inputTokens: 2, outputTokens: 1 }] };
    });
    const options = { mode: 'unidirectional', maxNumSeqs: 1, maxNumBatchedTokens: 64 } as const;
    const stepMs: SimulationCosts['stepMs'] = (_, { role }) => (role === 'prefill' ? prefillMs : 0);
    const cluster = simulated({ blocks: 4000, options }, { stepMs }, { check: false });
    const collector = new Collector();
    const load = { perSecond: 1000 * perMs, count: conversations.length, seed };
    const arrivals = poissonArrivals(conversations, load);
    await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
    return mean([...collector.column('ttftMs')]);
  }

  it.each([
    [1, 0.4],
    [1, 0.6],
    [2, 1.2],
    [4, 2.4],
  ])("has the closed form's mean wait at %d times the speed and %d times the load", async (K, RD) => {
    const R = RD / ALONE_MS;
    const waitMs = (R * ALONE_MS ** 2) / (2 * K * (K - RD));
    const means: number[] = [];
    for (const seed of SEEDS) means.push(await meanAtPrefill(ALONE_MS / K, R, seed));
    const error = sampleStandardDeviation(means) / Math.sqrt(means.length);
    const waitedMs = mean(means) - ALONE_MS / K;
    expect(Math.abs(waitedMs - waitMs)).toBeLessThan(3 * error);
    // This excludes exponential prefill times, with which the wait would be twice as long.
    expect(Math.abs(waitedMs - 2 * waitMs)).toBeGreaterThan(6 * error);
  });
});

describe('a shared resource', () => {
  it('takes n times as long for n equal flows, and carries all their bytes', () => {
    const clock = new VirtualClock();
    const link = new SharedResource(clock, (flows) => 1000 / flows);
    const ends: number[] = [];
    for (let i = 0; i < 4; i++) link.begin(5000, () => ends.push(clock.now()));
    while (clock.next());
    expect(ends).toEqual([20, 20, 20, 20]);
    expect(link).toMatchObject({ busyMs: 20, done: 20_000 });
  });

  it('is shared with a flow that begins later', () => {
    const clock = new VirtualClock();
    const link = new SharedResource(clock, (flows) => 1 / flows);
    const ends: [string, number][] = [];
    link.begin(10, () => ends.push(['first', clock.now()]));
    clock.after(4, () => link.begin(3, () => ends.push(['second', clock.now()])));
    while (clock.next());
    expect(ends).toEqual([
      ['second', 10],
      ['first', 13],
    ]);
    expect(link.busyMs).toBe(13);
  });

  it('takes exactly the time of a single flow, whatever came before', () => {
    const clock = new VirtualClock();
    const link = new SharedResource(clock, () => 1);
    const ends: number[] = [];
    for (const startMs of [0.1, 0.7, 1.3])
      clock.at(startMs, () => link.begin(0.3, () => ends.push(clock.now())));
    while (clock.next());
    expect(ends).toEqual([0.1 + 0.3, 0.7 + 0.3, 1.3 + 0.3]);
  });

  it('slows P and D on one machine, each by its own share', () => {
    const clock = new VirtualClock();
    const shares = { prefill: 0.8, decode: 0.5 };
    const machine = new SharedResource<EngineRole>(clock, (all, role) => (all > 1 ? shares[role] : 1));
    const ends: [string, number][] = [];
    const begin = (name: string, ms: number, role: EngineRole) =>
      machine.begin(ms, () => ends.push([name, clock.now()]), role);
    begin('P', 10, 'prefill');
    begin('D', 3, 'decode');
    clock.at(20, () => {
      begin('left', 5, 'prefill');
      const given = begin('given up', 5, 'decode');
      clock.after(2, () => given.cancel());
    });
    while (clock.next());
    // D's 3 ms take 6, in which P does 4.8 of its 10. The later P does 1.6 of its 5 in the 2 ms that it shares.
    expect(ends.map(([name]) => name)).toEqual(['D', 'P', 'left']);
    expect(ends[0]![1]).toBeCloseTo(6, 9);
    expect(ends[1]![1]).toBeCloseTo(6 + 5.2, 9);
    expect(ends[2]![1]).toBeCloseTo(20 + 2 + 3.4, 9);
  });

  it('gives the share of a cancelled flow to the others; a queued resource still spends its time', () => {
    const clock = new VirtualClock();
    const ends: number[] = [];
    const shared = new SharedResource(clock, (flows) => 1 / flows);
    shared.begin(10, () => ends.push(clock.now()));
    const other = shared.begin(10, () => ends.push(-1));
    clock.after(4, () => other.cancel());
    while (clock.next());
    expect(ends).toEqual([12]);
    const queued = new QueuedResource(clock, 1);
    queued.begin(5, () => ends.push(-1)).cancel();
    queued.begin(5, () => ends.push(clock.now()));
    while (clock.next());
    expect(ends).toEqual([12, 22]);
  });
});
