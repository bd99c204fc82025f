/** One queue for several servers, such as the places of an engine's batch: waits against queueing theory. */

import { mean, sampleStandardDeviation } from 'simple-statistics';
import { describe, expect, it } from 'vitest';
import { serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { Random } from '../../src/workload/random.ts';
import { simulated } from './simulated.ts';

/** When a customer arrives and how long its service takes, milliseconds. */
interface Customer {
  atMs: number;
  serviceMs: number;
}

type Service = (random: Random, meanMs: number) => number;
const exponential: Service = (random, meanMs) => random.exponential(meanMs);
/** Half are shorter than the mean by this share of it, half are longer. */
const either =
  (share: number): Service =>
  (random, meanMs) =>
    meanMs * (random.float() < 0.5 ? 1 - share : 1 + share);

function* customers(
  { servers, rho, service = exponential }: { servers: number; rho: number; service?: Service },
  meanMs: number,
  seed: number,
): Generator<Customer> {
  const random = new Random(seed);
  for (let atMs = 0; ; ) {
    atMs += random.exponential(meanMs / (servers * rho));
    yield { atMs, serviceMs: service(random, meanMs) };
  }
}

/** How long each customer waits if served in order of arrival by the first free server. */
function waitsOf(servers: number, served: readonly Customer[]): number[] {
  const freeMs: number[] = Array.from({ length: servers }, () => 0);
  return served.map(({ atMs, serviceMs }) => {
    const first = freeMs.indexOf(Math.min(...freeMs));
    const waitMs = Math.max(0, freeMs[first]! - atMs);
    freeMs[first] = atMs + waitMs + serviceMs;
    return waitMs;
  });
}

/** Erlang C times S / (c - a): the mean wait in one queue for c servers, in units of the service time. */
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

describe('M/M/c with one queue', () => {
  it.each([
    [1, 0.5, 1],
    [2, 0.5, 0.3333],
    [2, 0.8, 1.7778],
    [4, 0.5, 0.087],
    [4, 0.8, 0.7455],
    [8, 0.8, 0.286],
  ])(
    'has the mean wait of the closed form if served in order: %d servers at a load of %d',
    (servers, rho, published) => {
      expect(erlangWait(servers, rho)).toBeCloseTo(published, 3);
      const waits = waitsOf(servers, take(400_000, customers({ servers, rho }, 1, 5)));
      expect(mean(waits) / published).toBeGreaterThan(0.95);
      expect(mean(waits) / published).toBeLessThan(1.05);
    },
  );
});

describe('M/G/c with one queue', () => {
  const SEEDS = [1, 2, 3, 4, 5, 6];

  /** In units of the service time; `cs2`: its squared coefficient of variation. Exact only for one server and for M/M/c. */
  const allenCunneen = (servers: number, rho: number, cs2: number) =>
    (erlangWait(servers, rho) * (1 + cs2)) / 2;

  /**
   * What that omits, as a share of it: Cosmetatos' correction for M/D/c, which vanishes as service times approach an
   * exponential distribution.
   */
  const leftOut = (servers: number, rho: number, cs2: number) =>
    (((1 - rho) * (servers - 1) * (Math.sqrt(4 + 5 * servers) - 2)) / (16 * rho * servers)) *
    ((1 - cs2) / (1 + cs2));

  it.each([
    [1, 0.8, 0.5],
    [2, 0.8, 0],
    [2, 0.8, 0.5],
    [4, 0.8, 0.5],
    [8, 0.8, 0.5],
    [4, 0.5, 0.5],
  ])("has Allen and Cunneen's wait: %d servers, load %d, services mean ± %d of it", (servers, rho, share) => {
    const means = SEEDS.map((seed) =>
      mean(waitsOf(servers, take(100_000, customers({ servers, rho, service: either(share) }, 1, seed)))),
    );
    const error = sampleStandardDeviation(means) / Math.sqrt(means.length);
    const off = (c: number) => Math.abs(mean(means) - allenCunneen(c, rho, share ** 2));
    const within = 3 * error + leftOut(servers, rho, share ** 2) * allenCunneen(servers, rho, share ** 2);
    expect(off(servers)).toBeLessThan(within);
    // One server more or less at the same load is outside of that.
    for (const c of [servers - 1, servers + 1]) if (c > 0) expect(off(c)).toBeGreaterThan(within);
  });
});

describe('an engine with a batch of c places', () => {
  it.each([
    ['M/M/1', 1, exponential],
    ['M/M/2', 2, exponential],
    ['M/M/4', 4, exponential],
    ['M/G/2', 2, either(0.5)],
    ['M/G/4', 4, either(0.5)],
  ])('gives each request the wait of %s, within two steps', async (_name, servers, service) => {
    // Each step takes 1 ms, and each answer as many steps as its service takes milliseconds.
    const served = take(300, customers({ servers, rho: 0.8, service }, 100, 7)).map(({ atMs, serviceMs }) => {
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
    expect(mean(expected)).toBeGreaterThan(20);
  });
});
