/** Views with signals, and turns under way, for the tests of policies. */
import type { EngineSignals, RouteRequest, RoutingEvent, RoutingPolicy } from '../../../src/router/plan.ts';
import { routeRequest, view } from '../policies.ts';

export const signals = (more: Partial<EngineSignals> = {}): EngineSignals => ({
  atMs: 0,
  running: 0,
  waiting: 0,
  waitingForRemote: 0,
  freeBlocks: 100,
  numBlocks: 100,
  promptTokensPerSecond: 0,
  generationTokensPerSecond: 0,
  endedPerSecond: 0,
  ...more,
});

export const told = (engineId: string, more: Partial<EngineSignals> = {}, roleset?: string) =>
  view(engineId, { signals: signals(more), ...(roleset === undefined ? {} : { roleset }) });

export const tokens = (n: number, first = 0): number[] => Array.from({ length: n }, (_, i) => first + i);

let number = 1_000_000;

/** Tells the policy that a turn was planned on these engines. Returns the turn's number. */
export function sent(
  policy: RoutingPolicy,
  prefill: string | null,
  decode: string,
  promptTokenIds: readonly number[] = tokens(100),
  more: Partial<RouteRequest> = {},
): number {
  number++;
  const request = routeRequest({ number, promptTokenIds, ...more });
  policy.observe?.({
    kind: 'planned',
    number,
    prefill,
    decode,
    promptTokens: promptTokenIds.length,
    request,
  });
  return number;
}

export const prefilled = (number: number, engineId: string, ms = 10): RoutingEvent => ({
  kind: 'prefilled',
  number,
  engineId,
  ms,
  prompt: null,
});

export const ended = (number: number): RoutingEvent => ({ kind: 'ended', number, outputTokens: 8 });

/** The engines that the policy routes to: 'p0 d0', or 'd0' if D serves alone. */
export function chosen(
  policy: RoutingPolicy,
  prefill: readonly ReturnType<typeof view>[],
  decode: readonly ReturnType<typeof view>[],
  more: Partial<RouteRequest> = {},
): string {
  const routing = policy.route(routeRequest(more), { prefill, decode });
  return routing.alone ? routing.decode.engineId : `${routing.prefill.engineId} ${routing.decode.engineId}`;
}

/** The scores of the routing, by engine id. */
export function scoresOf(
  policy: RoutingPolicy,
  prefill: readonly ReturnType<typeof view>[],
  decode: readonly ReturnType<typeof view>[],
  more: Partial<RouteRequest> = {},
): Record<string, number> {
  const { scores = [] } = policy.route(routeRequest(more), { prefill, decode });
  return Object.fromEntries(scores.map(({ engineId, score }) => [engineId, score]));
}
