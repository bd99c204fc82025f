/** A plan counts the same whether a simulation serves all requests to the end or not; step times may be drawn. */
import { describe, expect, it } from 'vitest';
import { promisesRun } from '../../src/cli/simulate/promises-run.ts';
import { noCosts } from '../../src/simulate/costs/published.ts';
import { poissonArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { type Load, type SimulationWorld, simulateOnce } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { evenTrace, NOTHING_DRAWN } from './plan/planned.ts';
import { fleetOptions } from './simulated.ts';

const random = new Random(9);
const conversations: BenchConversation[] = Array.from({ length: 40 }, (_, i) => ({
  id: `c${i}`,
  turns: Array.from({ length: 6 }, () => {
    const tokenIds = Array.from({ length: random.int(20, 60) }, () => random.int(8, 400));
    const content = { kind: 'tokens' as const, tokenIds };
    return { content, inputTokens: tokenIds.length, outputTokens: random.int(5, 40) };
  }),
}));

const world: SimulationWorld = {
  costs: { ...noCosts, stepMs: ({ prefillTokens, decodes }) => 4 + prefillTokens / 10 + decodes },
  ...{ groups: [{ kind: 'full' }], blockBytes: 16_000, sharing: 'fcfs', check: false, runs: true },
  ...{ tokenIds: [8, 500], seed: 0, seeds: 1, slo: { ttftMs: null, tpotMs: null } },
  nextTask: promisesRun,
  signal: new AbortController().signal,
  onProgress() {},
};
const options = fleetOptions({ prefill: 2, decode: 2 });

async function served(load: Load, whole: boolean, some: Partial<SimulationWorld> = {}) {
  const collector = new Collector({ keyed: true });
  const { cluster } = await simulateOnce(
    { label: 'arm', options, load },
    { ...world, ...some },
    3,
    collector,
    whole,
  );
  return { collector, endMs: cluster.clock.now() };
}

const rowsUntil = ({ collector }: Awaited<ReturnType<typeof served>>, untilMs: number) =>
  collector
    .keys!.map((key, i) => ({
      key,
      startMs: collector.column('startMs')[i]!,
      ttftMs: collector.column('ttftMs')[i],
      latencyMs: collector.column('latencyMs')[i],
      pulled: collector.column('pulledTokens')[i],
    }))
    .filter(({ startMs }) => startMs <= untilMs);

describe('a simulation that stops when all that counts has ended', () => {
  const arrivals = (seed: number) => poissonArrivals(conversations, { perSecond: 20, count: 40, seed });
  const trace = evenTrace(60, 200, 30);
  it.each<[string, Load]>([
    ['conversations', { kind: 'arrivals', arrivals, thinkMs: 10 }],
    ['a trace', trace.sample(60, 12, NOTHING_DRAWN)],
  ])('has the requests of the whole run up to its last arrival, to the bit: %s', async (_what, load) => {
    const [whole, part] = [await served(load, true), await served(load, false)];
    const lastMs = load.kind === 'trace' ? 5000 : whole.collector.conversations.lastMs;
    const rows = rowsUntil(whole, lastMs);
    expect(rows.length).toBeGreaterThanOrEqual(40);
    expect(rowsUntil(part, lastMs)).toEqual(rows);
    expect(part.collector.conversations).toMatchObject({
      openAtLast: whole.collector.conversations.openAtLast,
      lastMs: whole.collector.conversations.lastMs,
    });
    if (load.kind !== 'arrivals') return;
    expect(part.endMs).toBeLessThan(whole.endMs);
    // Many of the turns come later, but the estimate of how long a conversation stays is right.
    expect(part.collector.count).toBeLessThan(0.8 * whole.collector.count);
    const { stayMs } = whole.collector;
    expect(Math.abs(part.collector.stayMs / stayMs - 1)).toBeLessThan(0.25);
  });
});

describe('steps whose time varies', () => {
  const load: Load = {
    kind: 'arrivals',
    arrivals: (seed) => poissonArrivals(conversations, { perSecond: 0.2, count: 8, seed }),
    thinkMs: 0,
  };
  const mean = (values: Float64Array) => values.reduce((sum, ms) => sum + ms, 0) / values.length;

  it('take multiples of their time, drawn by the seed', async () => {
    const [prompts, decodes] = [[[1]], [[0.5], [2.5]]];
    const varies = ({ prefills }: { prefills: number }) => (prefills > 0 ? prompts : decodes);
    const costs = { ...world.costs, stepMs: () => 10, varies };
    const [steady, one, same, other] = [
      await served(load, true, { costs: { ...costs, varies: null } }),
      await served(load, true, { costs }),
      await served(load, true, { costs }),
      await served(load, true, { costs, stepSeed: 8 }),
    ];
    // Half as long again on average: alone on its engines, a turn takes the time of its steps.
    const latency = ({ collector }: typeof one) => mean(collector.column('latencyMs'));
    const first = mean(steady.collector.column('ttftMs'));
    expect((latency(one) - first) / (latency(steady) - first)).toBeCloseTo(1.5, 0);
    expect(latency(same)).toBe(latency(one));
    expect(latency(other)).not.toBe(latency(one));
  });
});
