/** Engines that join and leave on a virtual clock, by hand and by the autoscalers of real fleets. */
import { describe, expect, it } from 'vitest';
import type { AutoscaleChoice } from '../../src/router/autoscale/registry.ts';
import { memberEvent } from '../../src/simulate/fleet-event.ts';
import { exactly, poissonArrivals, serveArrivals, serveTurn } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { outcomeOf } from '../../src/simulate/results/outcome.ts';
import { summarise } from '../../src/simulate/results/summary.ts';
import { SegmentedTokens } from '../../src/simulate/tokens/segmented-tokens.ts';
import { Random } from '../../src/workload/random.ts';
import { TraceTokens } from '../../src/workload/traces/tokens.ts';
import type { Segment } from '../../src/workload/traces/types.ts';
import type { BenchConversation } from '../../src/workload/types.ts';
import { type Fleet, fleetOptions, greedy, simulated, turn } from './simulated.ts';

const START_MS = 30_000;
const costs = {
  startMs: START_MS,
  stepMs: ({ prefillTokens, decodes }: { prefillTokens: number; decodes: number }) =>
    5 + prefillTokens + decodes,
};
/** P caches nothing, so what D does not hold is computed. */
const uncached = { prefill: { count: 1, numBlocks: 200, enablePrefixCaching: false } };
const ids = (count: number, first: number) =>
  Array.from({ length: count }, (_, i) => 8 + ((first + i) % 400));

describe('an engine that joins', () => {
  it('gets turns once its start is over, and its start counts as engine time', async () => {
    const cluster = simulated({}, costs);
    const ask = async (id: string) =>
      (await turn(cluster, { conversationId: id, promptTokenIds: ids(40, 0), sampling: greedy(4) })).routed;
    await cluster.run(
      (async () => {
        const scaling = cluster.fleet.scale({ prefill: 2 });
        await cluster.clock.sleep(START_MS - 1);
        expect(await ask('a')).toMatchObject({ prefill: 'prefill-0' });
        expect(await scaling).toMatchObject({ joined: [{ engineId: 'prefill-1', startMs: START_MS }] });
        expect([(await ask('c'))?.prefill, (await ask('d'))?.prefill].sort()).toEqual([
          'prefill-0',
          'prefill-1',
        ]);
      })(),
    );
    const { engines } = outcomeOf({
      cluster,
      collector: new Collector(),
      happened: null,
      stopped: null,
      lastComesMs: null,
    });
    expect(engines.map(({ engineId, begunMs, servesMs }) => [engineId, begunMs, servesMs])).toEqual([
      ['prefill-0', 0, 0],
      ['decode-0', 0, 0],
      ['prefill-1', 0, START_MS],
    ]);
  });
});

it.each([
  ['all of it', 0],
  ['from the start of counting', 9000],
])('a start that is not over when the run ends counts as engine-hours: %s', async (_, fromMs) => {
  const cluster = simulated({}, costs);
  const [askedMs, untilMs] = [4000, 20_000];
  await cluster.run(
    (async () => {
      await cluster.clock.sleep(askedMs);
      void cluster.fleet.scale({ decode: 2 });
      await cluster.clock.sleep(untilMs - askedMs);
    })(),
  );
  const collector = new Collector();
  collector.fromMs = fromMs;
  const run = { cluster, collector, happened: null, stopped: null, lastComesMs: null };
  const slo = { ttftMs: null, tpotMs: null };
  const arm = summarise({ label: 'arm', options: fleetOptions() }, [outcomeOf(run)], slo);
  expect(arm.engine_hours * 3_600_000).toBeCloseTo(
    2 * (untilMs - fromMs) + (untilMs - Math.max(fromMs, askedMs)),
    3,
  );
});

describe('an engine that leaves', () => {
  /** Two turns of a conversation; between them, the D that holds the KV of the first leaves. */
  async function resumes(drain: 'wait' | 'migrate' | 'drop') {
    const cluster = simulated({ decode: 2, options: uncached }, costs);
    const { prompt, left } = await cluster.run(
      (async () => {
        const asked = { conversationId: 'a', promptTokenIds: ids(64, 0), sampling: greedy(17) };
        const first = await turn(cluster, asked);
        // The other D holds more, so decode-0 leaves.
        await turn(cluster, { conversationId: 'b', promptTokenIds: ids(200, 90), sampling: greedy(17) });
        const leaving = cluster.fleet.scale({ decode: 1 }, { drain, holdsMs: 60_000 });
        if (drain !== 'wait') await leaving;
        const promptTokenIds = [...ids(64, 0), ...first.outputTokenIds, ...ids(20, 300)];
        const next = await turn(cluster, { conversationId: 'a', promptTokenIds, sampling: greedy(4) });
        return { prompt: next.prompt, left: (await leaving).left };
      })(),
    );
    const { lostKv, migratedTokens } = cluster.fleet;
    expect(left).toMatchObject([{ engineId: 'decode-0' }]);
    return { prompt, migratedTokens, lost: lostKv.lostTokens, again: lostKv.recomputedTokens };
  }

  it.each([
    // D had all but the last token's KV.
    ['drop', { lost: 80, again: 80, migratedTokens: 0 }, 0],
    ['wait', { lost: 0, again: 0, migratedTokens: 0 }, 80],
    ['migrate', { lost: 0, again: 0, migratedTokens: 80 }, 80],
  ] as const)('with drain mode %s counts what it lost and migrated', async (drain, sums, pulledTokens) => {
    const { prompt, ...found } = await resumes(drain);
    expect(found).toEqual(sums);
    expect(prompt).toMatchObject({ localHitTokens: 0, pulledTokens, computedTokens: 101 - pulledTokens });
  });

  it('by dying loses the KV that it held, which is recomputed, and is replaced', async () => {
    const cluster = simulated({ options: uncached }, costs);
    const prompt = await cluster.run(
      (async () => {
        const first = await turn(cluster, {
          conversationId: 'a',
          promptTokenIds: ids(64, 0),
          sampling: greedy(17),
        });
        // Another D joins first, since without a D nothing is served.
        await cluster.fleet.scale({ decode: 2 });
        cluster.fleet.present.find(({ engineId }) => engineId === 'decode-0')!.end('it is tested');
        await cluster.fleet.revive();
        const promptTokenIds = [...ids(64, 0), ...first.outputTokenIds, ...ids(20, 300)];
        return (await turn(cluster, { conversationId: 'a', promptTokenIds, sampling: greedy(4) })).prompt;
      })(),
    );
    expect(prompt).toMatchObject({ localHitTokens: 0, pulledTokens: 0, computedTokens: 101 });
    const { lostTokens, recomputedTokens } = cluster.fleet.lostKv;
    expect(cluster.fleet.staying.map(({ engineId }) => engineId)).toContain('decode-0.2');
    const died = cluster.fleet.events.find(({ event }) => event === 'died');
    expect(died).toMatchObject({ engineId: 'decode-0', detail: 'it is tested' });
    expect(lostTokens).toBe(80);
    expect(recomputedTokens).toBe(80);
  });

  it('by dying loses the KV of a trace too, whose tokens are not written out', async () => {
    const cluster = simulated({ options: uncached }, costs);
    const tokens = new TraceTokens(500, 1);
    const part = (key: number, length: number): Segment => ({ key, from: 0, length });
    const serve = (prompt: readonly Segment[], answer: Segment) => {
      const forcedTokenIds = SegmentedTokens.of([answer], tokens);
      const sampling = { ...exactly(answer.length), forcedTokenIds };
      const promptTokenIds = SegmentedTokens.of(prompt, tokens);
      return serveTurn(cluster, { conversationId: 'a', promptTokenIds, sampling }, new Collector());
    };
    await cluster.run(
      (async () => {
        await serve([part(0, 64)], part(1, 17));
        cluster.fleet.engine('decode').end('it is tested');
        await cluster.fleet.revive();
        await serve([part(0, 64), part(1, 17), part(2, 20)], part(3, 4));
      })(),
    );
    expect(cluster.fleet.lostKv).toMatchObject({ lostTokens: 80, recomputedTokens: 80 });
  });
});

describe('an autoscaler', () => {
  const choice: AutoscaleChoice = {
    name: 'k8s-hpa',
    parameters: {
      prefill: { metric: 'in-flight', target: 2, scaleDownStabilizationSeconds: 30 },
      decode: { metric: 'in-flight', target: 4, scaleDownStabilizationSeconds: 30 },
    },
    intervalMs: 5000,
    bounds: { prefill: { min: 1, max: 4 }, decode: { min: 1, max: 4 } },
  };

  /** A rush of conversations, then a long quiet tail. */
  async function rush(startMs: number, autoscale: AutoscaleChoice | null, options: Fleet['options'] = {}) {
    const random = new Random(3);
    const conversations = Array.from({ length: 60 }, (_, i): BenchConversation => {
      const turns = Array.from({ length: 3 }, () => {
        const tokenIds = Array.from({ length: random.int(100, 300) }, () => random.int(8, 400));
        return {
          content: { kind: 'tokens' as const, tokenIds },
          inputTokens: tokenIds.length,
          outputTokens: 20,
        };
      });
      return { id: `c${i}`, turns };
    });
    const cluster = simulated(
      { blocks: 2000, options: { ...options, drain: { drain: 'drop', holdsMs: 0 } } },
      { ...costs, startMs },
      { autoscale, check: false },
    );
    const collector = new Collector();
    function* arrivals() {
      yield* poissonArrivals(conversations, { perSecond: 3, count: 60, seed: 1 });
      const tail = poissonArrivals(conversations.slice(0, 10), { perSecond: 0.02, count: 10, seed: 2 });
      for (const { atMs, conversation } of tail)
        yield { atMs: 40_000 + atMs, conversation: { ...conversation, id: `late ${conversation.id}` } };
    }
    await cluster.run(serveArrivals(cluster, arrivals(), collector, { thinkMs: 500, failover: false }));
    const outcome = outcomeOf({ cluster, collector, happened: null, stopped: null, lastComesMs: null });
    const mean = outcome.columns.ttftMs.reduce((sum, ms) => sum + ms, 0) / outcome.count;
    const joins = outcome.scaling.events.filter(({ event }) => event === 'joined');
    return { outcome, mean, joins };
  }

  it('adds engines under load and removes them after it; the longer a start, the less it helps', async () => {
    const fixed = await rush(0, null);
    const quick = await rush(1000, choice);
    const slow = await rush(60_000, choice);
    expect(fixed.outcome.scaling).toMatchObject({ decisions: 0, stayed: null, events: [] });
    for (const { outcome, joins } of [quick, slow]) {
      expect(outcome).toMatchObject({ count: 210, failed: 0 });
      expect(joins.length).toBeGreaterThan(1);
      expect(outcome.scaling.events.some(({ event }) => event === 'left')).toBe(true);
      expect(outcome.scaling.lostTokens).toBeGreaterThanOrEqual(outcome.scaling.recomputedTokens);
    }
    expect(quick.mean).toBeLessThan(0.7 * fixed.mean);
    expect(slow.mean).toBeGreaterThan(1.2 * quick.mean);
    expect(slow.joins[0]!.atMs - quick.joins[0]!.atMs).toBe(59_000);
    expect(await rush(1000, choice)).toEqual(quick);
  });

  it('that changes nothing reports why', async () => {
    const never = {
      ...choice,
      parameters: { prefill: { metric: 'waiting', target: 900 }, decode: { metric: 'running', target: 900 } },
    };
    const { scaling } = (await rush(1000, never)).outcome;
    expect(scaling.events).toEqual([]);
    expect(scaling.stayed).toMatch(
      /prefill stays 1 \(waiting: .* 900.*\), decode stays 1 \(running: .* 900.*\)/,
    );
  });

  it('decides later if signals are old', async () => {
    const byQueue = {
      ...choice,
      parameters: { prefill: { metric: 'waiting', target: 2 }, decode: { metric: 'running', target: 4 } },
    };
    const now = await rush(1000, byQueue);
    const old = await rush(1000, byQueue, { signalAgeMs: 12_000 });
    const first = ({ outcome }: typeof now) =>
      outcome.scaling.events.find(({ event }) => event === 'decided')!.atMs;
    expect(first(old) - first(now)).toBeGreaterThanOrEqual(10_000);
  });
});

it('the event of an engine that left has its tokens with thousands separated, as in all tables', () => {
  const left = { kind: 'left', engineId: 'decode-0', role: 'decode', name: 'decode-0', ended: null } as const;
  const event = memberEvent(
    { ...left, ms: 20, migrated: { holds: 1, tokens: 2916 }, lost: { holds: 2, tokens: 12_345 } },
    0,
  );
  expect(event?.detail).toBe('after 20 ms; 2,916 tokens of KV taken over, 12,345 lost');
});
