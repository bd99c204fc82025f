/**
 * From an accepted turn to its plan: collects views of the engines, asks the active policy, and records the decision.
 */
import type { Handover } from '../config/cluster-schema.ts';
import type { Mode } from '../config/modes.ts';
import type { Clock } from '../engine/types.ts';
import type { Conversation } from './conversation.ts';
import { RecordingPolicy, type RoutedTurn } from './decision.ts';
import type { EngineClient } from './engine-client.ts';
import { type HeldForNextTurn, release } from './next-turn-hold.ts';
import type { Placement } from './placement.ts';
import { enginesOf, planTurn, type RouteRequest, type RoutingPolicy, type TurnPlan } from './plan.ts';
import type { GenerateRequest } from './turn-types.ts';
import { TurnWatch } from './turn-watch.ts';
import type { TurnsByEngine } from './turns-by-engine.ts';
import type { EngineViews } from './views.ts';

/** A routing policy with its name and what it sees. */
export interface RouterPolicy {
  name: string;
  policy: RoutingPolicy;
  views: EngineViews;
  needs: { cache: boolean };
}

export interface PlannerDeps {
  clock: Clock;
  /** The policy that decides now: the one that the request names or, for null, the active one. */
  routing: (policyName: string | null) => RouterPolicy;
  /** Absent: any P with any D. */
  placement?: Placement;
  /** The active settings. `throttled`: a modelled link slows transfers down. */
  settings: () => { mode: Mode; handover: Handover; throttled: boolean };
  /** The current engines, ended ones included. */
  engines: () => readonly EngineClient[];
}

export interface PlannedTurn {
  /** null: the plan's engines ended before it began, and the request allows failover. */
  plan: TurnPlan | null;
  watch: TurnWatch;
  routed: RoutedTurn | null;
}

/** `coming`: turns that engines will get. Throws what planTurn throws, after releasing the hold. */
export function planRequest(
  { clock, engines, placement, routing, settings }: PlannerDeps,
  { cacheSalt = null, failover, routing: policyName = null }: GenerateRequest,
  { id: conversationId, turns: turnsBefore }: Conversation,
  turn: Pick<RouteRequest, 'number' | 'promptTokenIds'> & { acceptedMs: number },
  held: HeldForNextTurn | null,
  coming: TurnsByEngine,
): PlannedTurn {
  const { mode, handover } = settings();
  const { name, policy, views: engineViews, needs } = routing(policyName);
  const nowMs = clock.now();
  const views = engineViews.of(engines(), nowMs, coming);
  const { number, promptTokenIds } = turn;
  const request = {
    number,
    promptTokenIds,
    nowMs,
    conversationId,
    turnsBefore,
    mode,
    handover,
    held: held && { engineId: held.holder.engineId, tokens: held.params.remote_num_tokens ?? 0 },
    cachedTokens: engineViews.cachedTokens(promptTokenIds, cacheSalt, nowMs),
  };
  const decided = new RecordingPolicy(policy);
  let plan: TurnPlan;
  try {
    plan = planTurn(request, views, decided, placement);
  } catch (error) {
    if (held) release(held);
    throw error;
  }
  const endMs = clock.now();
  const watch = new TurnWatch(policy, request, turn.acceptedMs, coming);
  const hasEnded = (id: string): boolean => views.some(({ engineId, ended }) => engineId === id && ended);
  if (failover && enginesOf(plan).some(hasEnded)) return { plan: null, watch, routed: null };
  const routed = Object.assign(decided.read(plan, name, needs.cache), { startMs: nowMs, endMs });
  watch.planned(plan);
  return { plan, watch, routed };
}
