import { describe, expect, test } from 'vitest';
import { RoutingError } from '../../src/errors.ts';
import { buildPolicy } from '../../src/fleet/active-routing.ts';
import { Routings } from '../../src/fleet/routings.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import { Watches } from '../../src/fleet/watches.ts';
import type { EngineView, RouteRequest } from '../../src/router/plan.ts';

const options = { weightSeed: 0, blockSize: 16 } as ClusterOptions;

async function world() {
  const routings = new Routings({ all: [] }, new Watches(), await buildPolicy(options, 64), options);
  const enter = (name: string, asked = options) => routings.enter(name, asked, 64);
  const ask = async (name: string): Promise<void> => (await enter(name))();
  return { routings, enter, ask };
}

const mix = (i: number): string => `least-request:1,prefix-cache:${i + 1}`;

describe('routing policies that turns ask for', () => {
  test('the 16 mixes used most recently are kept, in addition to single policies', async () => {
    const { routings, ask } = await world();
    for (let i = 0; i < 16; i++) await ask(mix(i));
    await ask('session-affinity');
    const kept = [mix(0), 'session-affinity'].map((name) => routings.of(name));
    await ask(mix(0));
    for (let i = 16; i < 31; i++) await ask(mix(i));
    await ask('llm-d');
    expect([mix(0), 'session-affinity'].map((name) => routings.of(name))).toEqual(kept);
    expect(routings.of(mix(1))).toBe(routings.of(null));
    expect([mix(16), mix(30), 'llm-d'].map((name) => routings.of(name).name)).toEqual([
      mix(16),
      mix(30),
      'llm-d',
    ]);
  });

  test('an engine that ends is forgotten by policies that track engines', async () => {
    const { routings, ask } = await world();
    await ask('sglang');
    let end!: () => void;
    routings.follow({ engineId: 'p0', onDeath: (listener: () => void) => (end = listener) } as never);
    const { policy } = routings.of('sglang');
    const engine = (engineId: string): EngineView => {
      const role = engineId.startsWith('p') ? 'prefill' : 'decode';
      return { engineId, role, combined: false, ended: false, inFlight: 0, signals: null };
    };
    const candidates = { prefill: [engine('p0'), engine('p1')], decode: [engine('d0')] };
    const request: RouteRequest = {
      ...{ number: 0, promptTokenIds: [1, 2, 3], nowMs: 0, conversationId: 'c', turnsBefore: 0, held: null },
      mode: 'bidirectional',
      handover: 'pull',
      cachedTokens: () => 0,
    };
    policy.observe!({
      ...{ kind: 'planned', number: 0, prefill: 'p0', decode: 'd0', promptTokens: 3 },
      request,
    });
    expect(policy.route(request, candidates).why).toContain('was sent 3 of these tokens');
    end();
    expect(policy.route(request, candidates).why).toContain('no P was sent enough');
  });

  test('a policy is not dropped while a turn uses it', async () => {
    const { routings, enter, ask } = await world();
    const leave = await Promise.all(Array.from({ length: 16 }, (_, i) => enter(mix(i))));
    await expect(enter(mix(16))).rejects.toThrow(RoutingError);
    await ask('random');
    leave[3]!();
    await ask(mix(16));
    expect(routings.of(mix(3)).name).toBe('round-robin');
    expect(routings.of(mix(0)).name).toBe(mix(0));
  });

  test('two concurrent turns share one policy, which stays until both have ended', async () => {
    const { routings, enter } = await world();
    const [first, second] = await Promise.all([enter(mix(0)), enter(mix(0))]);
    await Promise.all(Array.from({ length: 15 }, (_, i) => enter(mix(i + 1))));
    first!();
    await expect(enter(mix(16))).rejects.toThrow(RoutingError);
    second!();
    await enter(mix(16));
    expect(routings.of(mix(0)).name).toBe('round-robin');
  });

  test.each([
    ['least-reqest', {}, /there is no 'least-reqest'/],
    ['prefix-cache', { routing: { name: 'random', parameters: { 'prefix-cache': { x: 1 } } } }, /x/],
  ])('an invalid %s with %j is refused', async (name, more, message) => {
    const { enter } = await world();
    const asked = enter(name, { ...options, ...more } as ClusterOptions);
    await expect(asked).rejects.toThrow(message);
    await expect(asked).rejects.toThrow(RoutingError);
  });

  test('an internal failure is not reported as an error of the request', async () => {
    const { enter } = await world();
    // Validated options never look like this.
    const asked = enter('random', {
      ...options,
      allFullKv: true,
      kvCacheGroups: 1,
    } as unknown as ClusterOptions);
    await expect(asked).rejects.toThrow(TypeError);
    await expect(asked).rejects.not.toBeInstanceOf(RoutingError);
  });
});
