/** Sends turns to the engines that served them in an earlier run, so that two runs do not differ in routing. */
import { invariant } from '../errors.ts';
import type { RoutedTurn } from '../router/decision.ts';
import type { Candidates, RouteRequest, Routing, RoutingPolicy } from '../router/plan.ts';

/** Where a turn went; null: unknown. */
export type PastRouting = (conversationId: string, turn: number) => RoutedTurn | null;

/** Turns of which nothing is known go where the policy says. Throws InternalError if a known engine is no candidate. */
export const replayedRouting = (policy: RoutingPolicy, chosen: PastRouting): RoutingPolicy => ({
  observe: (event) => policy.observe?.(event),
  forget: (engineId) => policy.forget?.(engineId),
  route(request, candidates) {
    const before = chosen(request.conversationId, request.turnsBefore + 1);
    return before ? routingOf(before, request, candidates) : policy.route(request, candidates);
  },
});

function routingOf(
  { way, prefill, decode, load }: RoutedTurn,
  { held }: RouteRequest,
  candidates: Candidates,
): Routing {
  const find = (side: keyof Candidates, id: string) => {
    const engine = candidates[side].find(({ engineId }) => engineId === id);
    invariant(engine, () => `a turn went to ${id}, which is not among its candidates now`);
    return engine;
  };
  const alone = way === 'alone';
  return {
    prefill: prefill === null ? candidates.prefill[0]! : find('prefill', prefill),
    decode: find('decode', decode),
    alone,
    recompute: !alone && held !== null && load === null,
    why: 'as before',
  };
}
