import { describe, expect, test } from 'vitest';
import { parseRunConfig } from '../../../src/config/run.ts';
import type { Cluster } from '../../../src/fleet/types.ts';
import type { Arm, ExperimentPlan } from '../../../src/lab/multiturn/experiments.ts';
import { runSession, type SessionOptions } from '../../../src/lab/multiturn/session.ts';
import { summariseExperiment, unansweredArm } from '../../../src/lab/multiturn/summary.ts';
import type { BenchTarget } from '../../../src/lab/multiturn/target.ts';
import { clientOptions } from './client-options.ts';
import { conversation, FakeTarget } from './fake-target.ts';

const REQUEST_MS = 1000;

const cluster = {
  info: { engines: [], model: { blockBytes: 1 } },
  configure: async () => {},
  stats: async () => [],
} as unknown as Cluster;

const armOf = (mode: 'unidirectional' | 'bidirectional'): Arm => ({
  key: mode,
  label: mode,
  mode,
  threshold: 1,
});
const plan: ExperimentPlan = {
  name: 'prefix-caching',
  key: 'prefix_caching',
  title: 'P keeps its KV between turns',
  prefixCaching: true,
  pBlocks: 9,
  dBlocks: 9,
  arms: [armOf('unidirectional'), armOf('bidirectional')],
  published: null,
};

const silent = { trying() {}, tried() {}, planned() {}, armBegins() {}, requestDone() {}, armEnds() {} };

/** Serves ten conversations of three turns on a clock of its own; each request takes a second. */
async function session(change: Partial<SessionOptions>) {
  let clock = 0;
  const fake = new FakeTarget();
  const target: BenchTarget = {
    send: (turn) => {
      clock += REQUEST_MS;
      return fake.send(turn);
    },
    endConversation: (id) => fake.endConversation(id),
    settled: () => fake.settled(),
  };
  const all = Array.from({ length: 10 }, (_, i) => conversation(`c${i}`, 3));
  const options: SessionOptions = {
    ...clientOptions(),
    now: () => clock,
    rounds: null,
    deadlineMs: null,
    asServed: (some) => some,
    fitPools: () => [plan],
    ...change,
  };
  return runSession(cluster, target, [plan], all, options, silent);
}

const modesOf = (rounds: Awaited<ReturnType<typeof session>>['rounds']) =>
  Object.values(summariseExperiment(plan, rounds, parseRunConfig({ model: 'nano' }), 1).modes);

describe('a session with a budget', () => {
  // Trial, a round of 10 conversations, and two of 5.
  const deadlineMs = 4000 + 4000 + 60_000 + 66_000;

  test('computes rates only from rounds without the conversations that it dropped', async () => {
    const { conversations, notes, rounds } = await session({ deadlineMs });
    expect(conversations.length).toBeLessThan(10);
    expect(notes.join(' ')).toContain('rates and held blocks are from the later rounds');
    const modes = modesOf(rounds);
    expect(modes).toHaveLength(2);
    for (const mode of modes) {
      expect(mode.requests).toBe(3 * 3 * conversations.length);
      expect(mode.requests_per_second).toBeCloseTo(1000 / REQUEST_MS, 2);
      expect(mode.output_tokens_per_second).toBeCloseTo(2000 / REQUEST_MS, 2);
    }
  });

  test('names the number of rounds that was asked for, if that is less than a comparison needs', async () => {
    const { notes } = await session({ deadlineMs: 64_000, requestRate: 0.1, rounds: 1 });
    expect(notes.join(' ')).toContain(': 1 round with more would not fit the budget.');
    const { incompleteReason } = await session({ deadlineMs: 4000 + 4000 + 60_000 + 5000, rounds: 2 });
    expect(incompleteReason).toMatch(/^the budget was enough for 1 whole round of 2: /);
  });

  test('takes request gaps and --max-requests into account when it sizes the workload', async () => {
    const sizeIn = async (change: Partial<SessionOptions>) => {
      const { conversations } = await session({ deadlineMs: 4 * 60_000 + 8000, ...change });
      return conversations.reduce((sum, { turns }) => sum + turns.length, 0);
    };
    expect(await sizeIn({})).toBe(30);
    expect(await sizeIn({ requestRate: 0.1 })).toBeLessThan(10);
    expect(await sizeIn({ requestRate: 0.1, maxRequests: 3 })).toBe(30);
  });
});

test('a mode whose requests all failed is in no table, but is reported', async () => {
  const { rounds } = await session({ rounds: 1 });
  expect(unansweredArm([plan], rounds)).toBeNull();
  const lost = { round: 1, requests: [], errors: new Map([['no room', 3]]), runtimeMs: 5, counters: null };
  const without = new Map([...rounds, [plan.arms[1]!, [lost]] as const]);
  expect(modesOf(without)).toHaveLength(1);
  expect(unansweredArm([plan], without)).toBe(
    'P keeps its KV between turns, bidirectional: no request was answered; 3 times: no room',
  );
});
