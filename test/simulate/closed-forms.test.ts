/** What queueing theory says must come out: where it holds exactly, within the error of so many draws. */

import { describe, expect, it } from 'vitest';
import type { EngineRole } from '../../src/router/engine-client.ts';
import { VirtualClock } from '../../src/simulate/clock.ts';
import { Collector } from '../../src/simulate/collector.ts';
import { poissonArrivals, serveArrivals } from '../../src/simulate/load.ts';
import { QueuedResource, SharedResource } from '../../src/simulate/resources.ts';
import { serveLoad } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { simulated } from './simulated.ts';

const SERVICE_MS = 10;

/** Requests of one step each, served one at a time by each of so many engines. */
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

/** Who comes when, and takes how long, milliseconds. */
interface Customer {
  atMs: number;
  serviceMs: number;
}

function* customers(servers: number, rho: number, meanMs: number, seed: number): Generator<Customer> {
  const random = new Random(seed);
  for (let atMs = 0; ; ) {
    atMs += random.exponential(meanMs / (servers * rho));
    yield { atMs, serviceMs: random.exponential(meanMs) };
  }
}

/** First come, first served by whoever of so many is free first: how long each waits. */
function waitsOf(servers: number, served: readonly Customer[]): number[] {
  const freeMs: number[] = Array.from({ length: servers }, () => 0);
  return served.map(({ atMs, serviceMs }) => {
    const first = freeMs.indexOf(Math.min(...freeMs));
    const waitMs = Math.max(0, freeMs[first]! - atMs);
    freeMs[first] = atMs + waitMs + serviceMs;
    return waitMs;
  });
}

/** Erlang's C times S / (c - a): the wait in one queue for c servers, in units of the service time. */
function erlangWait(servers: number, rho: number): number {
  const offered = servers * rho;
  let term = 1;
  let sum = 0;
  for (let k = 0; k < servers; term *= offered / ++k) sum += term;
  const all = term / (1 - rho);
  return all / (sum + all) / (servers - offered);
}

const take = <T>(count: number, all: Iterator<T>): T[] =>
  Array.from({ length: count }, () => all.next().value as T);

const meanOf = (values: ArrayLike<number>): number =>
  Array.from(values).reduce((sum, value) => sum + value, 0) / values.length;

describe('M/M/c, one queue for all', () => {
  it.each([
    [1, 0.5, 1],
    [2, 0.5, 0.3333],
    [2, 0.8, 1.7778],
    [4, 0.5, 0.087],
    [4, 0.8, 0.7455],
    [8, 0.8, 0.286],
  ])(
    '%d servers at a load of %d: the closed form is what serving in order gives',
    (servers, rho, published) => {
      expect(erlangWait(servers, rho)).toBeCloseTo(published, 3);
      const waits = waitsOf(servers, take(400_000, customers(servers, rho, 1, 5)));
      expect(meanOf(waits) / published).toBeGreaterThan(0.95);
      expect(meanOf(waits) / published).toBeLessThan(1.05);
    },
  );

  it.each([1, 2, 4])(
    'and an engine with a batch of %d gives each request that wait, to two steps',
    async (servers) => {
      // Steps of 1 ms, whatever is in them, so many for each answer as its service has milliseconds.
      const served = take(300, customers(servers, 0.8, 100, 7)).map(({ atMs, serviceMs }) => {
        return { atMs, serviceMs: Math.ceil(serviceMs) };
      });
      const options = { mode: 'monolithic', maxNumSeqs: servers, maxNumBatchedTokens: 64 } as const;
      const cluster = simulated({ blocks: 4000, options }, { stepMs: () => 1 }, { check: false });
      const collector = new Collector({ keyed: true });
      const arrivals = served.map(({ atMs, serviceMs: outputTokens }, i) => {
        const content = { kind: 'tokens', tokenIds: [8 + i, 9] } as const;
        return { atMs, conversation: { id: `${i}`, turns: [{ content, inputTokens: 2, outputTokens }] } };
      });
      await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
      const ttfts = collector.column('ttftMs');
      const waits = served.map((_, i) => ttfts[collector.keys!.indexOf(`${i}#1`)]! - 1);
      const expected = waitsOf(servers, served);
      waits.forEach((waitMs, i) => {
        expect(Math.abs(waitMs - expected[i]!)).toBeLessThanOrEqual(2);
      });
      expect(meanOf(expected)).toBeGreaterThan(20);
    },
  );
});

describe('closed forms', () => {
  it.each([0.3, 0.5, 0.8])('M/D/1 at a load of %d', async (rho) => {
    const { waitS, decoders } = await queue(1, rho, { count: 8000 });
    expect(waitS).toBeGreaterThan((rho / (2 * (1 - rho))) * 0.9);
    expect(waitS).toBeLessThan((rho / (2 * (1 - rho))) * 1.1);
    expect(decoders[0]!.busy).toBeCloseTo(rho, 1);
  });

  it('M/G/1, half of all short: what differs waits longer', async () => {
    const [rho, share, short, long] = [0.5, 0.5, 0.5, 1.5];
    const service = (random: Random) => SERVICE_MS * (random.float() < share ? short : long);
    const { waitS } = await queue(1, rho, { count: 5000, service });
    const secondMoment = share * short ** 2 + (1 - share) * long ** 2;
    const expected = (rho * secondMoment) / (2 * (1 - rho));
    expect(waitS / expected).toBeGreaterThan(0.9);
    expect(waitS / expected).toBeLessThan(1.1);
  });

  it('a closed loop: clients are those that are served and those that think', async () => {
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
    const responseMs = meanOf(collector.column('latencyMs'));
    // Long enough in the queue for it to count.
    expect(responseMs).toBeGreaterThan(1.5 * SERVICE_MS);
    expect((perMs * (responseMs + thinkMs)) / clients).toBeGreaterThan(0.96);
    expect((perMs * (responseMs + thinkMs)) / clients).toBeLessThan(1.04);
  });

  it('M/M/1 behind a random router, however many engines', async () => {
    for (const servers of [1, 2]) {
      const { waitS } = await queue(servers, 0.5, { count: 20_000, exponential: true, routing: 'random' });
      expect(waitS).toBeGreaterThan(0.9);
      expect(waitS).toBeLessThan(1.1);
    }
  });

  it('in turn, and to whoever has least: between a queue each and one for all', async () => {
    const one = 0.3333;
    const each = 1;
    const inTurn = await queue(2, 0.5, { count: 8000, exponential: true });
    const least = await queue(2, 0.5, { count: 8000, exponential: true, routing: 'least-request' });
    expect(inTurn.waitS).toBeLessThan(each * 0.95);
    expect(inTurn.waitS).toBeGreaterThan(least.waitS);
    expect(least.waitS).toBeGreaterThan(one);
  });

  it("Little's law: those who are there are those who come times how long they stay", async () => {
    const { meanMs, decoders, overMs, collector } = await queue(2, 0.8, { count: 5000, exponential: true });
    const there = decoders.reduce((sum, { running, waiting }) => sum + running + waiting, 0);
    expect(there).toBeCloseTo((collector.count / overMs) * meanMs, 6);
  });
});

describe('a shared link', () => {
  it('n equal flows begun together take n times as long, and its bytes are all there', () => {
    const clock = new VirtualClock();
    const link = new SharedResource(clock, (flows) => 1000 / flows);
    const ends: number[] = [];
    for (let i = 0; i < 4; i++) link.begin(5000, () => ends.push(clock.now()));
    while (clock.next());
    expect(ends).toEqual([20, 20, 20, 20]);
    expect(link).toMatchObject({ busyMs: 20, done: 20_000 });
  });

  it('one that comes later shares what is left', () => {
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

  it('one flow alone takes its time to the bit, whatever went before', () => {
    const clock = new VirtualClock();
    const link = new SharedResource(clock, () => 1);
    const ends: number[] = [];
    for (const startMs of [0.1, 0.7, 1.3])
      clock.at(startMs, () => link.begin(0.3, () => ends.push(clock.now())));
    while (clock.next());
    expect(ends).toEqual([0.1 + 0.3, 0.7 + 0.3, 1.3 + 0.3]);
  });

  it('a machine slows P and D each by its own share', () => {
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
    // D's 3 ms take 6, in which P does 4.8 of its 10; of 5 another does 1.6 in the 2 ms in which it is not alone.
    expect(ends.map(([name]) => name)).toEqual(['D', 'P', 'left']);
    expect(ends[0]![1]).toBeCloseTo(6, 9);
    expect(ends[1]![1]).toBeCloseTo(6 + 5.2, 9);
    expect(ends[2]![1]).toBeCloseTo(20 + 2 + 3.4, 9);
  });

  it('what is given up leaves the rest to the others, or its time on a queue', () => {
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
