/** A load written as a trace and replayed gives the same run. */
import { expect, it } from 'vitest';
import { type Arriving, serveArrivals } from '../../src/simulate/load/load.ts';
import { Collector } from '../../src/simulate/results/collector.ts';
import { serveLoad } from '../../src/simulate/run.ts';
import { Random } from '../../src/workload/random.ts';
import { TraceTokens } from '../../src/workload/traces/tokens.ts';
import type { Segment, TraceTurn } from '../../src/workload/traces/types.ts';
import { simulated } from './simulated.ts';

const fleet = { prefill: 2, decode: 2, blocks: 2000 };
const costs = {
  stepMs: ({ prefillTokens, decodes }: { prefillTokens: number; decodes: number }) =>
    3.17 + 0.11 * prefillTokens + 0.53 * decodes,
  submitMs: 0.31,
  messageMs: 0.07,
};
const TURNS = 3;
const THINK_MS = 40;

interface Asked {
  atMs: number;
  turns: { promptTokens: number; outputTokens: number }[];
}

function asked(): Asked[] {
  const random = new Random(3);
  let atMs = 0;
  return Array.from({ length: 20 }, () => {
    atMs += random.exponential(70);
    const turns = Array.from({ length: TURNS }, () => ({
      promptTokens: random.int(20, 120),
      outputTokens: random.int(2, 30),
    }));
    return { atMs, turns };
  });
}

const segment = (key: number, length: number): Segment => ({ key, from: 0, length });
const keyOf = (conversation: number, turn: number): number => 100 * conversation + 10 * turn;

/** Each turn asks something new, after the whole conversation so far. */
function asTrace(conversations: readonly Asked[]): TraceTurn[] {
  return conversations.flatMap(({ atMs, turns }, c) => {
    let said: Segment[] = [];
    return turns.map(({ promptTokens, outputTokens }, t): TraceTurn => {
      const prompt = [...said, segment(keyOf(c, t), promptTokens)];
      const answer = [segment(keyOf(c, t) + 1, outputTokens)];
      said = [...prompt, ...answer];
      const index = TURNS * c + t;
      return {
        ...{ index, line: index + 1, conversationId: `c${c}`, turn: t + 1 },
        arrival: t === 0 ? { kind: 'at', ms: atMs } : { kind: 'after', index: index - 1, thinkMs: THINK_MS },
        inputTokens: prompt.reduce((sum, { length }) => sum + length, 0),
        ...{ outputTokens, prompt, answer },
      };
    });
  });
}

function* asArrivals(conversations: readonly Asked[], tokens: TraceTokens): Generator<Arriving> {
  for (const [c, { atMs, turns }] of conversations.entries()) {
    const all = turns.map(({ promptTokens, outputTokens }, t) => ({
      content: { kind: 'tokens', tokenIds: tokens.of([segment(keyOf(c, t), promptTokens)]) } as const,
      ...{ inputTokens: promptTokens, outputTokens },
    }));
    yield { atMs, conversation: { id: `c${c}`, turns: all } };
  }
}

it('a load replayed from its own trace has the same times, hits and pulls for each request', async () => {
  const tokens = new TraceTokens(500, 1);
  const conversations = asked();
  const { signal } = new AbortController();
  const outcomes = async (
    serve: (cluster: ReturnType<typeof simulated>, collector: Collector) => Promise<unknown>,
  ) => {
    const cluster = simulated(fleet, costs);
    const collector = new Collector({ keyed: true });
    await cluster.run(serve(cluster, collector));
    const of = (key: 'startMs' | 'ttftMs' | 'latencyMs' | 'localHitTokens' | 'pulledTokens', i: number) =>
      Number(collector.column(key)[i]!.toFixed(9));
    return new Map(
      collector.keys!.map((key, i) => [
        key,
        [
          of('startMs', i),
          of('ttftMs', i),
          of('latencyMs', i),
          of('localHitTokens', i),
          of('pulledTokens', i),
        ],
      ]),
    );
  };
  const ran = await outcomes((cluster, collector) =>
    serveArrivals(cluster, asArrivals(conversations, tokens), collector, {
      thinkMs: THINK_MS,
      failover: false,
    }),
  );
  const replayed = await outcomes((cluster, collector) =>
    serveLoad(cluster, { kind: 'trace', turns: asTrace(conversations), tokens }, collector, {
      seed: 1,
      signal,
    }),
  );
  expect(ran.size).toBe(conversations.length * TURNS);
  expect(replayed).toEqual(ran);
  expect([...ran.values()].some(([, , , , pulled]) => pulled! > 0)).toBe(true);
});

it('serves a turn at its time, however far behind the turn before it stands in the trace', async () => {
  const many = 4200;
  const first = Array.from(
    { length: many },
    (_, c): TraceTurn => ({
      ...{ index: c, line: c + 1, conversationId: `c${c}`, turn: 1, arrival: { kind: 'at', ms: 100 * c } },
      ...{ inputTokens: 8, outputTokens: 1, prompt: [segment(2 * c, 8)], answer: [segment(2 * c + 1, 1)] },
    }),
  );
  const next: TraceTurn = {
    ...first[0]!,
    ...{ index: many, line: many + 1, turn: 2, arrival: { kind: 'after', index: 0, thinkMs: THINK_MS } },
  };
  const cluster = simulated(fleet, costs);
  const collector = new Collector();
  const load = { kind: 'trace', turns: [...first, next], tokens: new TraceTokens(500, 1) } as const;
  const { signal } = new AbortController();
  void serveLoad(cluster, load, collector, { seed: 1, signal });
  await cluster.until(() => collector.count === 2);
  const [startMs, latencyMs] = [collector.column('startMs'), collector.column('latencyMs')];
  expect([startMs[0], startMs[1]]).toEqual([0, expect.closeTo(latencyMs[0]! + THINK_MS, 6)]);
});
