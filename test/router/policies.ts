/** Policies and views for tests. */
import type { RoutingName } from '../../src/config/routing.ts';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import type { EngineView, RouteRequest, RoutingPolicy } from '../../src/router/plan.ts';
import { seededDraws } from '../../src/router/policies/definition.ts';
import { makePolicy } from '../../src/router/policies/registry.ts';
import { PrefixIndex } from '../../src/router/prefix-index.ts';
import type { RouterPolicy } from '../../src/router/turn-planner.ts';
import { EngineViews } from '../../src/router/views.ts';

/** A token's KV has 1,024 bytes, at any position. */
const kvBytes = (_start: number, count: number): number => 1024 * count;

export const DEPS = { draws: seededDraws(0), blockSize: 16, kvBytes };

/** `draws`: the random numbers of each turn, in order and repeated. Default: from a seed. */
export function policyOf(
  name: RoutingName | (string & {}),
  parameters: object = {},
  draws?: readonly number[],
) {
  const drawn = () => {
    let next = 0;
    return () => draws![next++ % draws!.length]!;
  };
  return makePolicy(
    { name, parameters: Object.keys(parameters).length > 0 ? { [name]: parameters } : {} },
    draws ? { ...DEPS, draws: drawn } : DEPS,
  );
}

/** The policy and views that a router uses; ageMs: the minimum age of the signals it sees. */
export const routingOf = (policy: RoutingPolicy = ROUND_ROBIN, ageMs = 0): RouterPolicy => {
  const hashing = { hasher: createBlockHasher('test'), blockSize: 16 };
  const views = new EngineViews(new PrefixIndex(hashing), () => ageMs);
  return { name: 'test', policy, views, needs: { cache: true } };
};

export const ROUND_ROBIN = policyOf('round-robin');

/** Engines whose id begins with 'p' prefill; others decode. */
export const view = (engineId: string, more: Partial<EngineView> = {}): EngineView => ({
  engineId,
  role: engineId.startsWith('p') ? 'prefill' : 'decode',
  ended: false,
  inFlight: 0,
  signals: null,
  ...more,
});

export const routeRequest = (more: Partial<RouteRequest> = {}): RouteRequest => ({
  number: 0,
  promptTokenIds: Array.from({ length: 100 }, (_, i) => i),
  turnsBefore: 0,
  mode: 'bidirectional',
  handover: 'pull',
  nowMs: 0,
  conversationId: 'a',
  held: null,
  cachedTokens: () => 0,
  ...more,
});
