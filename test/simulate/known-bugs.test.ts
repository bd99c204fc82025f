/** Bugs that users found in other engine simulators, each checked here (others: clock, closed-forms, simulate-trace). */
import { describe, expect, it } from 'vitest';
import { ROUTING_NAMES } from '../../src/config/routing.ts';
import type { Span, TurnSide } from '../../src/measure/spans/spans.ts';
import { checkEngines } from '../../src/simulate/engines/invariants.ts';
import { type Arriving, serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { outcomeOf } from '../../src/simulate/results/outcome.ts';
import { summarise } from '../../src/simulate/results/summary.ts';
import type { SimulationSettings } from '../../src/simulate/settings.ts';
import { request } from '../engine/fakes.ts';
import { type Fleet, fleetOptions, greedy, simulated, turn } from './simulated.ts';

const STEP_MS = 10;
const BLOCK = 16;

/** One engine that does both, with room for `blocks` blocks. */
const engineWith = (blocks: number): Fleet => ({ blocks: blocks + 1, options: { mode: 'monolithic' } });

/** Requests that arrive at once, all different, with these lengths of prompts and answers. */
function* atOnce(requests: readonly (readonly [promptTokens: number, outputTokens: number])[]) {
  for (const [i, [inputTokens, outputTokens]] of requests.entries()) {
    const tokenIds = Array.from({ length: inputTokens }, (_, at) => 8 + ((97 * i + at) % 400));
    const content = { kind: 'tokens', tokenIds } as const;
    yield { atMs: 0, conversation: { id: `c${i}`, turns: [{ content, inputTokens, outputTokens }] } };
  }
}

async function served(fleet: Fleet, arrivals: Iterable<Arriving>, runs = true) {
  const cluster = simulated(fleet, { stepMs: () => STEP_MS }, { runs });
  const collector = new Collector();
  await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
  const decoder = cluster.engines.find(({ role }) => role === 'decode')!;
  return { cluster, collector, preemptions: decoder.core.inspect.stats().preemptions };
}

describe('the times of a request', () => {
  it.each([true, false])(
    'include its last step, for short answers too (steps computed together: %s)',
    async (runs) => {
      const lengths = [1, 2, 3, 40];
      const { collector } = await served(engineWith(100), atOnce(lengths.map((n) => [5, n])), runs);
      const [ttfts, latencies] = [collector.column('ttftMs'), collector.column('latencyMs')];
      collector.column('outputTokens').forEach((tokens, i) => {
        expect(ttfts[i]).toBe(STEP_MS);
        expect(latencies[i]).toBe(tokens * STEP_MS);
      });
    },
  );

  it('are averaged by request: mean TPOT does not weight long answers more', async () => {
    const { cluster, collector } = await served(engineWith(100), atOnce([]));
    const add = (latencyMs: number, outputTokens: number): void => {
      const conversationId = `c${outputTokens}`;
      collector.arrives(conversationId, 0);
      const prompt = { promptTokens: 1, localHitTokens: 0, pulledTokens: 0, computedTokens: 1 };
      const outputTokenIds = Array.from({ length: outputTokens }, () => 8);
      const result = { conversationId, turn: 1, ttftMs: 50, latencyMs, prompt, outputTokenIds, transfer: {} };
      collector.ends(0, result as unknown as Parameters<Collector['ends']>[1]);
    };
    // A gap of 100 ms, and a hundred of 10.
    add(150, 2);
    add(1050, 101);
    const run = outcomeOf({ cluster, collector, happened: null, stopped: null, lastComesMs: null });
    const { tpot_ms } = summarise({ label: '', options: fleetOptions() }, [run], {
      ttftMs: null,
      tpotMs: null,
    });
    expect(tpot_ms!.mean).toBe(55);
  });
});

describe('the KV pool', () => {
  it('has the blocks that it was given, one of which is never used', async () => {
    const { cluster } = await served(engineWith(20), atOnce([[40, 3]]));
    for (const { core } of cluster.engines) {
      const { numBlocks, freeBlocks, usedBlocks } = core.inspect.stats();
      expect([numBlocks, freeBlocks + usedBlocks]).toEqual([21, 20]);
    }
  });

  it('preempts no requests that fill it to the last token, but does for one token more', async () => {
    // The last token that is generated needs no KV of its own.
    const fills = (blocks: number): [number, number] => [5, blocks * BLOCK - 5 + 1];
    const exactly = await served(engineWith(10), atOnce([fills(4), fills(6)]));
    expect(exactly).toMatchObject({ preemptions: 0, collector: { count: 2, failed: 0 } });
    const [prompt, output] = fills(6);
    const more = await served(
      engineWith(10),
      atOnce([
        [5, 120],
        [prompt, output + 1],
      ]),
    );
    expect(more.preemptions).toBeGreaterThan(0);
    expect(more.collector).toMatchObject({ count: 2, failed: 0 });
  });

  it('preempts a bounded number of times, and all requests end', async () => {
    const requests = Array.from({ length: 12 }, (_, i): [number, number] => [20 + i, 100]);
    const { collector, preemptions } = await served(engineWith(20), atOnce(requests));
    expect(collector).toMatchObject({ count: 12, failed: 0 });
    expect(preemptions).toBeGreaterThan(0);
    // Of two that run, the younger may be preempted once for each block that the older lacks.
    expect(preemptions).toBeLessThan(12 * 8);
  });
});

it('prefill, handover and decode follow each other in every turn', async () => {
  const spans: Span[] = [];
  const link = { name: 'test', bytesPerSecond: 50e6, latencyMs: 0.5 };
  const fleet: Fleet = { options: { mode: 'unidirectional', link } };
  const settings = { runs: false, onSpan: (span: Span) => spans.push(span) };
  const cluster = simulated(fleet, { stepMs: () => STEP_MS, submitMs: 0.3, messageMs: 0.1 }, settings);
  const arrivals = atOnce([5, 300, 40, 700, 90, 16].map((promptTokens, i) => [promptTokens, 1 + 3 * i]));
  const collector = new Collector();
  await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
  const turns = spans.filter(({ name }) => name === 'turn');
  expect(turns).toHaveLength(6);
  for (const turn of turns) {
    const { turnId } = turn.turns[0]!;
    const of = (name: string, side: TurnSide) =>
      spans.filter(
        (span) => span.name === name && span.turns.some((one) => one.turnId === turnId && one.side === side),
      );
    const [computed, decoded] = [of('forward', 'prefill'), of('forward', 'decode')];
    const [handOver, ...more] = of('transfer', 'decode');
    expect(more).toEqual([]);
    const moments = [
      turn.startMs,
      Math.min(...computed.map(({ startMs }) => startMs)),
      Math.max(...computed.map(({ endMs }) => endMs)),
      handOver!.startMs,
      handOver!.endMs,
      Math.min(...decoded.map(({ startMs }) => startMs)),
      Math.max(...decoded.map(({ endMs }) => endMs)),
      turn.endMs,
    ];
    expect(moments).toEqual(moments.toSorted((a, b) => a - b));
    expect(handOver!.endMs).toBeGreaterThan(handOver!.startMs);
  }
});

describe('routing', () => {
  it.each(ROUTING_NAMES)('by %s does not depend on how long an answer will be', async (name) => {
    const fleet: Fleet = { prefill: 3, decode: 3, options: { routing: { name, parameters: {} } } };
    const lengths = Array.from({ length: 20 }, (_, i) => 1 + ((7 * i) % 20));
    const routedWith = async (outputs: readonly number[]) => {
      const routed: [string, string | null | undefined, string | null | undefined][] = [];
      const onTurnEnd: SimulationSettings['onTurnEnd'] = ({ conversationId, routed: to }) =>
        routed.push([conversationId, to?.prefill, to?.decode]);
      const cluster = simulated(fleet, { stepMs: () => STEP_MS }, { onTurnEnd, check: false });
      // All are routed before any has been answered.
      const arrivals = [...atOnce(outputs.map((n, i) => [20 + 5 * (i % 7), n]))];
      const collector = new Collector();
      await cluster.run(serveArrivals(cluster, arrivals, collector, { thinkMs: 0, failover: false }));
      return routed.toSorted(([a], [b]) => a.localeCompare(b));
    };
    const found = await routedWith(lengths);
    expect(found).toHaveLength(20);
    expect(await routedWith(lengths.toReversed())).toEqual(found);
  });
});

it('checkEngines() reports an engine that idles while a request waits', async () => {
  const cluster = simulated(engineWith(20), { stepMs: () => STEP_MS });
  await cluster.run(turn(cluster, { conversationId: 'a', promptTokenIds: [8, 9], sampling: greedy(2) }));
  const engine = cluster.engines.find(({ role }) => role === 'decode')!;
  expect(() => checkEngines([engine])).not.toThrow();
  // Added directly, so the engine is not queued for attention.
  engine.core.addRequest(request('r', [8, 9], { maxTokens: 1 }));
  expect(() => checkEngines([engine])).toThrow('is idle, but a step would do something');
});
