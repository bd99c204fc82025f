import { describe, expect, it } from 'vitest';
import { promisesRun } from '../../src/cli/simulate/promises-run.ts';
import type { Cluster } from '../../src/fleet/types.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { noCosts } from '../../src/simulate/costs/published.ts';
import type { StepShape } from '../../src/simulate/costs/types.ts';
import { poissonArrivals, serveArrivals } from '../../src/simulate/load/load.ts';
import type { PastRouting } from '../../src/simulate/replayed-routing.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { chosenIn, compared, ranking, validate } from '../../src/simulate/results/validate.ts';
import type { SimulationWorld } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import { fleetOptions, simulated } from './simulated.ts';

/** A run whose requests had these TTFTs, and `pulledTokens` pulled tokens each. */
function run(ttfts: readonly number[], pulledTokens = 10, decode: string | null = null): Collector {
  const collector = new Collector({ keyed: true });
  ttfts.forEach((ttftMs, i) => {
    collector.arrives(`c${i}`, 100 * i);
    collector.ends(100 * i, {
      conversationId: `c${i}`,
      turn: 1,
      ttftMs,
      latencyMs: ttftMs + 50,
      outputTokenIds: [1, 2, 3],
      prompt: {
        promptTokens: 40,
        localHitTokens: 20,
        pulledTokens,
        computedTokens: 20 - pulledTokens,
        noPull: null,
      },
      transfer: { pToD: null, dToP: null },
      routed: decode === null ? null : { way: 'pull', prefill: 'prefill-0', decode },
    } as unknown as TurnResult);
  });
  return collector;
}

const figure = (arm: ReturnType<typeof compared>, name: string) =>
  arm.figures.find((each) => each.name === name)!;

describe('a simulation compared with real runs', () => {
  it('compares a request that some real runs did not reach with those that did', () => {
    const { perRequest } = compared('a', [run([100, 200]), run([100])], [run([100, 200])]);
    expect(perRequest.mape).toBeCloseTo(0);
  });

  it('meets the goal within 10%, or within twice the spread of the real runs', () => {
    const steady = [run([100, 200]), run([102, 200])];
    expect(figure(compared('a', steady, [run([110, 210])]), 'TTFT mean')).toMatchObject({
      real: 150.5,
      met: true,
    });
    expect(figure(compared('a', steady, [run([130, 220])]), 'TTFT mean')).toMatchObject({
      simulated: 175,
      met: false,
    });
    const loose = [run([100, 200]), run([140, 260])];
    const found = figure(compared('a', loose, [run([130, 290])]), 'TTFT mean');
    expect(found.spread).toBeCloseTo(25 / 175);
    expect(found.error).toBeCloseTo(0.2);
    expect(found.met).toBe(true);
  });

  it('must match counts exactly, unless the real runs differ among themselves', () => {
    const same = [run([100]), run([100])];
    expect(figure(compared('a', same, [run([100], 10)]), 'pulled tokens')).toMatchObject({
      exact: true,
      met: true,
    });
    expect(figure(compared('a', same, [run([100], 11)]), 'pulled tokens').met).toBe(false);
    const differing = [run([100], 10), run([100], 12)];
    expect(figure(compared('a', differing, [run([100], 11)]), 'pulled tokens').met).toBe(true);
    expect(figure(compared('a', differing, [run([100], 14)]), 'pulled tokens').met).toBe(false);
    // Nor if turns that were routed differently agree by chance.
    const elsewhere = [run([100], 100, 'decode-0'), run([100], 100, 'decode-1')];
    const byChance = (pulled: number) =>
      figure(compared('a', elsewhere, [run([100], pulled)]), 'pulled tokens');
    expect(byChance(104)).toMatchObject({ exact: false, met: true });
    expect(byChance(115).met).toBe(false);
  });

  it('is compared request by request, and by the ranking of arms', () => {
    const a = compared('a', [run([100, 200, 300])], [run([110, 220, 330])]);
    expect(a.perRequest.mape).toBeCloseTo(0.1);
    expect(a.perRequest.r).toBeCloseTo(1);
    const slower = compared('b', [run([300, 400, 500])], [run([320, 420, 520])]);
    const wrong = compared('c', [run([300, 400, 500])], [run([20, 30, 40])]);
    const alike = compared('d', [run([105, 205, 305])], [run([1, 2, 3])]);
    expect(ranking([a, slower])).toEqual({ pairs: 1, alike: 1 });
    expect(ranking([a, wrong])).toEqual({ pairs: 1, alike: 0 });
    expect(ranking([a, alike])).toEqual({ pairs: 0, alike: 0 });
  });
});

it('validate() sets engines to keep all KV for an arm that does, and not for others', async () => {
  const kept: unknown[] = [];
  const cluster: Pick<Cluster, 'configure'> = {
    async configure({ allFullKv }) {
      kept.push(allFullKv);
    },
  };
  // No requests: only what the engines are set to matters.
  const plans = [false, true].map((allFullKv) => ({
    label: String(allFullKv),
    options: fleetOptions({ options: { allFullKv } }),
    load: { kind: 'arrivals' as const, arrivals: () => [], thinkMs: 0 },
  }));
  const world = (): SimulationWorld => ({
    ...{ costs: noCosts, groups: [{ kind: 'sliding', window: 64 }, { kind: 'full' }], blockBytes: 16_000 },
    ...{ sharing: 'fcfs', check: false, runs: true, tokenIds: [8, 500], seed: 1, seeds: 1 },
    ...{ slo: { ttftMs: null, tpotMs: null }, nextTask: promisesRun, onProgress() {} },
    signal: new AbortController().signal,
  });
  await validate(cluster as Cluster, plans, world, {
    ...{ runs: 1, seed: 1, signal: new AbortController().signal, onRun() {}, between: async () => {} },
    clock: { now: () => 0, sleep: async () => {} },
  });
  expect(kept).toEqual([false, true, false, true]);
});

describe('the routing choices of a real run', () => {
  const routing = { name: 'least-request', parameters: {} } as const;
  const options = fleetOptions({ prefill: 2, decode: 2, options: { routing } });
  const random = new Random(3);
  const conversations = Array.from({ length: 12 }, (_, i) => ({
    id: `c${i}`,
    turns: Array.from({ length: 3 }, () => {
      const tokenIds = Array.from({ length: random.int(20, 90) }, () => random.int(8, 400));
      const content = { kind: 'tokens' as const, tokenIds };
      return { content, inputTokens: tokenIds.length, outputTokens: random.int(4, 30) };
    }),
  }));
  const serve = async (msPerToken: number, chosen: PastRouting | null): Promise<Collector> => {
    const costs = { stepMs: ({ prefillTokens }: StepShape) => 3 + msPerToken * prefillTokens };
    const cluster = simulated({ options }, costs, { chosen });
    const collector = new Collector({ keyed: true });
    const arrivals = poissonArrivals(conversations, { perSecond: 20, count: 12, seed: 1 });
    await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 20, failover: false }));
    return collector;
  };

  it('explain its counts: a simulation by these choices has the same counts, despite other times', async () => {
    const [real, simulation] = [await serve(2, null), await serve(0.1, null)];
    const again = await serve(0.1, chosenIn(real));
    const { decisions, figures } = compared('a', [real, real], [simulation], [again, again]);
    expect(decisions).toMatchObject({ amongReal: 1, counted: 72, asCounted: 72, amongRealCounted: 1 });
    expect(decisions.alike).toBeLessThan(0.9);
    expect(figures.find(({ name }) => name === 'pulled tokens')!.met).toBe(false);
    // A run with other choices does not count as the same, nor as one that differs by itself.
    expect(compared('a', [real, simulation], [simulation]).decisions.amongRealCounted).toBeNull();
    expect(compared('a', [real], [simulation], [simulation]).decisions.asCounted).toBeLessThan(36);
    // Which request is the last depends on times: one that only one of the runs served is ignored.
    const [longer, shorter] = [run([100, 200, 300]), run([100, 200])];
    const both = { counted: 2, asCounted: 2 };
    expect(compared('a', [longer], [shorter], [shorter]).decisions).toMatchObject(both);
    expect(compared('a', [shorter], [longer], [longer]).decisions).toMatchObject(both);
    expect([...again.column('ttftMs')]).not.toEqual([...real.column('ttftMs')]);
  });
});
