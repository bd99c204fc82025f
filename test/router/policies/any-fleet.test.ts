import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ROUTING_NAMES } from '../../../src/config/routing.ts';
import type { EngineView, RouteRequest, RoutingPolicy } from '../../../src/router/plan.ts';
import { policyOf, routeRequest, view } from '../policies.ts';
import { signals } from './fleet.ts';

/** Parameters that reach other branches than the defaults do. */
const OTHERS: Record<string, object> = {
  'aibrix-pd conductor': { prefillScorePolicy: 'conductor', decodeScorePolicy: 'conductor' },
  'llm-d weighted': {
    picker: 'weighted-random-picker',
    prefill: { 'no-hit-lru-scorer': 1, 'prefix-cache-scorer': 1, 'token-load-scorer': 1 },
    decode: { 'session-affinity-scorer': 1, 'load-aware-scorer': 1, 'active-request-scorer': 1 },
  },
  'dynamo warm': { temperature: 0.5, conditionalDisagg: 'isl_or_load', prefillBusyTokens: 50 },
  'sglang bucket': { prefillPolicy: 'bucket', decodePolicy: 'random' },
  'mooncake rejecting': { ttftSloMs: 20, tbtSloMs: 30 },
  'least-ttft alone': { alone: true },
};
const cases = [...ROUTING_NAMES, ...Object.keys(OTHERS)].map((name) => {
  const [policy] = name.split(' ') as [string];
  return [name, () => policyOf(policy, OTHERS[name] ?? {})] as const;
});

const count = fc.nat({ max: 40 });
const rate = fc.oneof(fc.constant(0), fc.double({ min: 0, max: 5000, noNaN: true }));
const anySignals = fc.option(
  fc
    .record({
      running: count,
      waiting: count,
      freeBlocks: count,
      numBlocks: fc.constantFrom(0, 40),
      generationTokensPerSecond: rate,
      promptTokensPerSecond: rate,
      endedPerSecond: rate,
    })
    .map((more) => signals(more)),
);
const engines = (prefix: string): fc.Arbitrary<EngineView[]> =>
  fc
    .array(fc.record({ inFlight: count, roleset: fc.constantFrom('a', 'b', 'c'), signals: anySignals }), {
      minLength: 1,
      maxLength: 5,
    })
    .map((all) => all.map((more, i) => view(`${prefix}${i}`, more)));
const turns = fc.array(
  fc.record({
    start: fc.nat({ max: 3 }),
    length: fc.nat({ max: 200 }),
    conversation: fc.nat({ max: 3 }),
    cached: fc.nat({ max: 250 }),
    held: fc.option(fc.record({ engine: fc.nat({ max: 4 }), tokens: fc.nat({ max: 250 }) })),
    mode: fc.constantFrom('unidirectional', 'bidirectional'),
    stepMs: fc.nat({ max: 8000 }),
    comesTo: fc.constantFrom('planned', 'prefilled', 'first token', 'ended'),
    ms: fc.double({ min: 0, max: 1000, noNaN: true }),
  }),
  { minLength: 1, maxLength: 25 },
);
type Turn = (typeof turns extends fc.Arbitrary<infer All extends unknown[]> ? All : never)[number];

function requestOf(turn: Turn, number: number, nowMs: number): RouteRequest {
  const length = Math.max(1, turn.length);
  return routeRequest({
    number,
    nowMs,
    conversationId: `c${turn.conversation}`,
    turnsBefore: number,
    mode: turn.mode as RouteRequest['mode'],
    promptTokenIds: Array.from({ length }, (_, i) => turn.start * 1000 + i),
    held: turn.held && { engineId: `d${turn.held.engine}`, tokens: turn.held.tokens },
    cachedTokens: (id) => Math.min(length, (turn.cached * (id.charCodeAt(1) + 1)) % 251),
  });
}

/** Routes the turns and reports them to the policy, as a router does. Returns the routings as text. */
function serve(
  policy: RoutingPolicy,
  all: readonly Turn[],
  prefill: EngineView[],
  decode: EngineView[],
): string {
  let nowMs = 0;
  const said: string[] = [];
  for (const [number, turn] of all.entries()) {
    nowMs += turn.stepMs;
    const request = requestOf(turn, number, nowMs);
    const routing = policy.route(request, { prefill, decode });
    // route() changes nothing: a second call returns the same.
    expect(JSON.stringify(policy.route(request, { prefill, decode }))).toBe(JSON.stringify(routing));
    expect(prefill).toContain(routing.prefill);
    expect(decode).toContain(routing.decode);
    for (const { score, engineId } of routing.scores ?? []) {
      expect(score, engineId).not.toBeNaN();
      expect([...prefill, ...decode].some((engine) => engine.engineId === engineId)).toBe(true);
    }
    expect(routing.predictedTtftMs ?? 0).toBeGreaterThanOrEqual(0);
    expect(routing.why).not.toMatch(/NaN|undefined/);
    said.push(`${routing.prefill.engineId} ${routing.decode.engineId} ${routing.why}`);
    if (routing.refused) continue;
    tell(policy, request, turn, routing.alone ? null : routing.prefill.engineId, routing.decode.engineId);
  }
  return said.join('\n');
}

function tell(
  policy: RoutingPolicy,
  request: RouteRequest,
  turn: Turn,
  prefill: string | null,
  decode: string,
) {
  const { number, promptTokenIds } = request;
  const { length: promptTokens } = promptTokenIds;
  const { ms, comesTo } = turn;
  policy.observe?.({ kind: 'planned', number, prefill, decode, promptTokens, request });
  if (comesTo === 'planned') return;
  const prompt = {
    promptTokens,
    localHitTokens: 0,
    pulledTokens: 0,
    computedTokens: promptTokens,
    noPull: null,
  };
  const engineId = prefill ?? decode;
  policy.observe?.({ kind: 'prefilled', number, engineId, ms, prompt });
  if (comesTo === 'prefilled') return;
  if (prefill)
    policy.observe?.({ kind: 'moved', number, from: prefill, to: decode, bytes: 1024 * promptTokens, ms });
  policy.observe?.({ kind: 'first token', number, engineId: decode, ttftMs: 2.5 * ms });
  if (comesTo === 'ended') policy.observe?.({ kind: 'ended', number, outputTokens: 8 });
}

describe('with any fleet and history', () => {
  test.each(cases)('%s routes to candidates, without NaN, and in the same way each time', (_, make) => {
    fc.assert(
      fc.property(engines('p'), engines('d'), turns, (prefill, decode, all) => {
        expect(serve(make(), all, prefill, decode)).toBe(serve(make(), all, prefill, decode));
      }),
      { numRuns: 60 },
    );
  });
});
