/** Watched simulated fleets: time advances as far as asked, and everything may change in between. */
import { describe, expect, test } from 'vitest';
import { comparePolicies } from '../../../src/simulate/live/compare.ts';
import { LiveFleet } from '../../../src/simulate/live/live-fleet.ts';
import { arrivalsUntil, conversationAt } from '../../../src/simulate/live/load.ts';
import type { LiveSettings } from '../../../src/simulate/live/settings.ts';
import type { LiveLook } from '../../../src/simulate/live/view.ts';
import { nextTask, settings } from './settings.ts';

const watched = (change: Partial<LiveSettings> = {}) => {
  const said: string[] = [];
  return { fleet: new LiveFleet(settings(change), nextTask, (message) => said.push(message)), said };
};

const ids = ({ engines }: LiveLook) => engines.map(({ engineId, state }) => `${engineId} ${state}`);

describe('a watched fleet', () => {
  test('serves arriving requests, and shows how they were routed, latencies, pools and load', async () => {
    const { fleet } = watched();
    await fleet.advance(4000);
    const look = fleet.look();
    expect(look.nowMs).toBe(4000);
    expect(look.requests).toMatchObject({ failed: 0 });
    expect(look.requests.answered).toBeGreaterThan(15);
    expect(look.latency).toHaveLength(4);
    const last = look.latency.at(-1)!;
    expect(last.p50Ms).toBeGreaterThan(16);
    expect(last.p99Ms).toBeGreaterThanOrEqual(last.p50Ms!);
    expect(last.answers).toBeLessThanOrEqual(look.requests.answered);
    const { routed, ttftMs } = look.decisions[0]!;
    expect(routed.candidates.map(({ engineId }) => engineId)).toEqual([
      'prefill-0',
      'prefill-1',
      'decode-0',
      'decode-1',
    ]);
    expect(ttftMs).toBeGreaterThan(0);
    for (const { pool, freeBlocks, numBlocks } of look.engines) {
      const { used, held, cached, blocksPerCell } = pool!;
      expect(blocksPerCell).toBe(1);
      expect(used).toHaveLength(numBlocks);
      const taken = used.reduce((n, share, i) => n + Number(share + held[i]! > 0), 0);
      expect(taken).toBe(numBlocks - freeBlocks);
      expect([...used].every((share, i) => share + held[i]! + cached[i]! <= 255)).toBe(true);
    }
    const busy = look.engines.map((engine) => engine.busy);
    expect(Math.max(...busy)).toBeGreaterThan(0.1);
    expect(Math.max(...busy)).toBeLessThanOrEqual(1);
    // The same again while time stands still.
    expect(fleet.look().engines.map((engine) => engine.busy)).toEqual(busy);
    // Holds last for the 100 ms between two turns: with five conversations a second, there may be none at a moment.
    let held = 0;
    for (let ms = 4050; ms <= 6000; ms += 50) {
      await fleet.advance(ms);
      if (fleet.look().engines.some(({ pool }) => pool!.held.some((share) => share > 0))) held++;
    }
    expect(held).toBeGreaterThan(0);
  });

  test('shows the path of a turn over the router, both engines and the link, in order', async () => {
    const { fleet } = watched();
    await fleet.advance(4000);
    const ended = fleet.look().decisions.find(({ turn, ttftMs }) => ttftMs !== null && turn === 2)!;
    const path = fleet.path(ended.turnId)!;
    const { prefill, decode } = ended.routed;
    const lanes = new Set(path.pieces.map(({ lane }) => lane));
    for (const lane of ['router', `${prefill} host`, `${decode} host`]) expect(lanes).toContain(lane);
    expect([...lanes].some((lane) => lane.startsWith('link '))).toBe(true);
    const end = Math.max(...path.pieces.map(({ endMs }) => endMs));
    expect(end).toBeCloseTo(path.latencyMs!, 6);
    expect(path.pieces.at(-1)).toMatchObject({ group: 'decode' });
    expect(fleet.path('nobody')).toBeNull();
  });

  test("shows the content of an opened engine's blocks, and of which turn it is", async () => {
    const { fleet } = watched({ load: { ...settings().load, turns: 4 } });
    expect(fleet.look().opened).toBeNull();
    fleet.open('decode-0');
    const turns = new Set<number | null>();
    for (let atMs = 200; atMs <= 4000; atMs += 200) {
      await fleet.advance(atMs);
      const { engines, opened } = fleet.look();
      const { numBlocks, freeBlocks } = engines.find(({ engineId }) => engineId === 'decode-0')!;
      expect(opened).toMatchObject({ engineId: 'decode-0', numBlocks: numBlocks + 1 });
      const taken = opened!.blocks.filter(({ use }) => use !== 'left');
      expect(taken).toHaveLength(numBlocks - freeBlocks);
      expect(taken.every(({ conversationId }) => conversationId !== null)).toBe(true);
      // A system prompt of 128 tokens, which belongs to the first turn, comes first.
      expect(taken.filter(({ index }) => index < 2).every(({ turn }) => turn === 1)).toBe(true);
      for (const { turn } of taken) turns.add(turn);
    }
    expect(turns).toEqual(new Set([1, 2, 3, 4]));
    fleet.kill('decode-0');
    expect(fleet.look().opened).toBeNull();
  });

  test('shows how full its store is, who saved and loaded, and the tiers below', async () => {
    expect(watched().fleet.look().store).toBeNull();
    const store = { blocks: 24, folderBlocks: 100, eviction: 'lru' } as const;
    // System prompts of four blocks, which every P saves and any engine loads.
    const { fleet } = watched({ store, load: { ...settings().load, system: 256 } });
    const numbers = new Set<number>();
    const sums = { saved: 0, loaded: 0 };
    for (let atMs = 100; atMs <= 5000; atMs += 100) {
      await fleet.advance(atMs);
      for (const { number, blocks, loads, atMs: endedMs } of fleet.look().store!.moves) {
        expect(endedMs).toBeLessThanOrEqual(atMs);
        if (!numbers.has(number)) sums[loads ? 'loaded' : 'saved'] += blocks;
        numbers.add(number);
      }
    }
    const look = fleet.look().store!;
    const { slots, blocks, pool, moved, lookups, hits, evicted, tiers } = look;
    expect(slots).toBe(24);
    expect(pool.used.length).toBe(24);
    expect(pool.used.reduce((n, share, i) => n + Number(share + pool.cached[i]! > 0), 0)).toBe(blocks);
    expect(hits).toBeGreaterThan(0);
    expect(hits).toBeLessThanOrEqual(lookups);
    expect(evicted).toBeGreaterThan(0);
    expect(tiers).toMatchObject([{ medium: 'folder', room: 100 }]);
    expect(tiers[0]!.blocks).toBeGreaterThan(slots);
    expect(tiers[0]!.read).toBeGreaterThan(0);
    // Every move was in a look.
    const { prefill, decode } = moved;
    expect(sums).toEqual({ saved: prefill.saved + decode.saved, loaded: prefill.loaded + decode.loaded });
    expect(prefill.saved).toBeGreaterThan(0);
    expect(prefill.loaded).toBeGreaterThan(0);
  });

  test('shows whether what was copied into a block came from the store', async () => {
    const store = { blocks: 500, folderBlocks: 0, eviction: 'lru' } as const;
    const froms = async (change: Partial<LiveSettings>) => {
      const { fleet } = watched(change);
      fleet.open('decode-0');
      const seen = new Set<string | null>();
      for (let atMs = 100; atMs <= 4000; atMs += 100) {
        await fleet.advance(atMs);
        for (const { origin, from } of fleet.look().opened!.blocks) {
          if (origin === 'computed') expect(from).toBeNull();
          else seen.add(from);
        }
      }
      return seen;
    };
    const without = await froms({});
    expect(without).toContain('engine');
    expect(without).not.toContain('store');
    const beside = await froms({ store });
    expect([...beside].some((from) => from === 'store' || from === 'either')).toBe(true);
  });

  test('is the same for the same seed', async () => {
    const looks = [];
    for (let i = 0; i < 2; i++) {
      const { fleet } = watched({ routing: 'least-request' });
      await fleet.advance(1000);
      await fleet.advance(2500);
      looks.push(fleet.look());
    }
    expect(looks[0]).toEqual(looks[1]);
  });

  test('changes its routing policy while it serves, and the new one knows the cached prefixes', async () => {
    const { fleet } = watched();
    await fleet.advance(3000);
    fleet.changeRouting('prefix-cache');
    await fleet.advance(6000);
    const { decisions, events, routing, requests } = fleet.look();
    expect(routing).toBe('prefix-cache');
    expect(decisions.every(({ routed }) => routed.policy === 'prefix-cache')).toBe(true);
    expect(decisions.at(-1)!.routed.candidates.some(({ cachedTokens }) => cachedTokens! > 0)).toBe(true);
    expect(events).toContainEqual({ atMs: 3000, event: 'routing', engineId: null, detail: 'prefix-cache' });
    expect(requests.failed).toBe(0);
  });

  test('follows a changed arrival rate, and refuses conversations that do not fit', async () => {
    const { fleet, said } = watched({ load: { ...settings().load, turns: 1, rate: 2 } });
    await fleet.advance(4000);
    const before = fleet.look().requests;
    fleet.changeLoad({ ...settings().load, turns: 1, rate: 30 });
    await fleet.advance(7000);
    const after = fleet.look().requests;
    expect(before.answered + before.underWay).toBeLessThan(20);
    expect(after.answered - before.answered).toBeGreaterThan(50);
    fleet.changeLoad({ ...settings().load, turns: 100, rate: 90 });
    expect(said).toEqual([expect.stringContaining('128 blocks hold 8128')]);
    fleet.changeLoad({ ...settings().load, turns: 1, rate: 0 });
    await fleet.advance(8000);
    expect(fleet.look().requests).toMatchObject({ underWay: 0, failed: 0 });
  });

  test('serves on after an engine is killed, and replaces it when asked', async () => {
    const { fleet, said } = watched();
    await fleet.advance(3000);
    fleet.kill('decode-0');
    await fleet.advance(3200);
    const dead = fleet.look();
    expect(dead.engines.find(({ engineId }) => engineId === 'decode-0')).toMatchObject({
      state: 'ended',
      pool: null,
      why: expect.stringContaining('killed by hand'),
    });
    fleet.kill('decode-0');
    expect(said).toEqual(['decode-0 is not there any more']);
    fleet.revive();
    await fleet.advance(6000);
    expect(ids(fleet.look())).toContain('decode-0.2 serving');
    expect(fleet.look().requests.failed).toBe(0);
  });

  test('lets engines join after their start time, and drain before they leave', async () => {
    const { fleet, said } = watched({ load: { ...settings().load, rate: 2 } });
    await fleet.advance(1000);
    fleet.scale({ prefill: 3, decode: 1 });
    fleet.scale({ prefill: 1 });
    await fleet.advance(1400);
    expect(said.join()).toContain('is being scaled');
    expect(fleet.look()).toMatchObject({ scaling: true });
    await fleet.advance(1600);
    expect(ids(fleet.look())).toContain('prefill-2 serving');
    await fleet.advance(34_000);
    expect(ids(fleet.look()).filter((id) => id.startsWith('decode'))).toHaveLength(1);
    expect(fleet.look()).toMatchObject({ scaling: false, requests: { failed: 0 } });
    expect(fleet.look().events.map(({ event }) => event)).toEqual(['joined', 'leaving', 'left']);
  });

  test('keeps its last 100 events, in order', async () => {
    const { fleet } = watched({ startMs: 1, load: { ...settings().load, rate: 1 } });
    for (let i = 0; i < 60; i++) {
      fleet.kill(
        fleet.look().engines.find(({ role, state }) => role === 'decode' && state === 'serving')!.engineId,
      );
      fleet.changeRouting(i % 2 === 0 ? 'random' : 'round-robin');
      fleet.revive();
      await fleet.advance(10 * (i + 1));
    }
    const { events } = fleet.look();
    expect(events).toHaveLength(100);
    const times = events.map(({ atMs }) => atMs);
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(events.slice(-2).map(({ event }) => event)).toEqual(['died', 'routing']);
    expect(times[0]).toBeGreaterThan(50);
  });

  test('gets engines from its autoscaler if many requests wait', async () => {
    const load = { turns: 1, rate: 24, question: 3000, answer: 4, system: 0, thinkMs: 0 };
    const { fleet } = watched({ prefill: 1, autoscale: 'aibrix-apa', blocks: 512, load });
    await fleet.advance(12_000);
    const { engines, events } = fleet.look();
    expect(engines.filter(({ role }) => role === 'prefill').length).toBeGreaterThan(1);
    expect(events.map(({ event }) => event)).toContain('decided');
  });

  test('loses idle engines to an autoscaler that is turned on later', async () => {
    const { fleet } = watched({ routing: 'llm-d', load: { ...settings().load, rate: 0 } });
    await fleet.advance(1000);
    fleet.autoscale('k8s-hpa');
    await fleet.advance(600_000);
    expect(ids(fleet.look())).toEqual(['prefill-0 serving', 'decode-0 serving']);
  });

  test('turns requests away and counts them if it cannot keep up', async () => {
    const load = { ...settings().load, rate: 4000, question: 1000, system: 0, turns: 1 };
    const { fleet } = watched({ prefill: 1, decode: 1, load });
    await fleet.advance(400);
    const { turnedAway, requests } = fleet.look();
    expect(turnedAway).toBeGreaterThan(0);
    expect(requests.underWay).toBeLessThanOrEqual(1000);
  });
});

describe('arriving conversations', () => {
  test('share a few system prompts and nothing else, and their lengths average to the means', () => {
    const load = { ...settings().load, turns: 1, question: 200, system: 64 };
    const all = Array.from({ length: 400 }, (_, i) => conversationAt(load, 7, i).turns[0]!);
    const contents = all.map(({ content }) => (content.kind === 'tokens' ? content.tokenIds : []));
    expect(new Set(contents.map((ids) => ids.slice(0, 64).join())).size).toBe(4);
    expect(new Set(contents.map((ids) => ids.slice(64).join())).size).toBe(400);
    const mean = all.reduce((sum, { inputTokens }) => sum + inputTokens - 64, 0) / all.length;
    expect(Math.abs(mean / 200 - 1)).toBeLessThan(0.1);
  });

  test('arrive at their rate, in order', () => {
    const all = [...arrivalsUntil({ ...settings().load, rate: 30, turns: 3 }, 3, 60_000)];
    expect(Math.abs(all.length / 600 - 1)).toBeLessThan(0.1);
    expect(all.every(({ atMs }, i) => i === 0 || atMs >= all[i - 1]!.atMs)).toBe(true);
  });
});

test('a fleet that cannot hold its longest conversation, or with unknown costs, is refused', () => {
  expect(() => watched({ blocks: 8 })).toThrow('824 tokens, and 8 blocks hold 448: give more blocks');
  expect(() => watched({ costs: 'mine' })).toThrow("no costs 'mine': wanted one of zero, dynamo-mocker");
});

test('comparePolicies() serves the same load to its end by each policy', async () => {
  const deps = { nextTask, signal: new AbortController().signal, onProgress() {} };
  const policies = ['round-robin', 'random', 'least-request'] as const;
  const one = await comparePolicies(settings(), policies, 4, deps);
  expect(one.policies.map(({ policy }) => policy)).toEqual(policies);
  const [first] = one.policies;
  for (const { requests, failed, stopped, points, p50Ms, p99Ms } of one.policies) {
    expect({ requests, failed, stopped }).toEqual({ requests: first!.requests, failed: 0, stopped: null });
    expect(points.length).toBeGreaterThan(3);
    expect(p99Ms).toBeGreaterThanOrEqual(p50Ms!);
  }
  expect(new Set(one.policies.map(({ p99Ms }) => p99Ms)).size).toBe(3);
  expect(await comparePolicies(settings(), policies, 4, deps)).toEqual(one);
});
