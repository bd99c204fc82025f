/**
 * Which engines serve a turn and in which order, decided from the request and from views of the engines, before any
 * engine is asked. Pure: the same request and views give the same plan, on real engines, fakes and simulated ones.
 */

import type { Handover } from '../config/cluster-schema.ts';
import type { Mode } from '../config/modes.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { PromptAccount } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { TurnSide } from '../measure/spans/spans.ts';
import type { EngineRole } from './engine-client.ts';
import { ANYWHERE, admittingEngines, type Placed, type Placement, partners, place } from './placement.ts';

/** What is known of an engine when a plan is made. */
export interface EngineView {
  engineId: string;
  role: EngineRole;
  /** Absent: there is only one roleset. */
  roleset?: string;
  /** Serves whole turns where no P and D can. Absent: false. */
  combined?: boolean;
  /** It has ended, or has failed during this turn. */
  ended: boolean;
  /**
   * This router's requests under way there and, for a routing policy, its turns that will come there: those of a D
   * include what P still prefills. Exact, however old the signals are.
   */
  inFlight: number;
  /** The engine's last visible report, as old as a scraped metric would be; null: none yet. */
  signals: EngineSignals | null;
}

/** What an engine reports of itself. */
export type EngineSignals = EngineLoad;

/** The input of a plan. A policy never sees how long the answer will be. */
export interface RouteRequest {
  /** Turns accepted before this one; round-robin policies count by it. */
  number: number;
  /** In milliseconds on the shared clock. */
  nowMs: number;
  conversationId: string;
  promptTokenIds: TokenIds;
  /** The conversation's finished turns. */
  turnsBefore: number;
  mode: Mode;
  handover: Handover;
  /** Which engine holds KV of the conversation's last turn, and of how many tokens; null: none. */
  held: { engineId: string; tokens: number } | null;
  /** Leading tokens of the prompt that an engine is known to have in its prefix cache. */
  cachedTokens: (engineId: string) => number;
}

/** `why`: a short reason for people to read. */
export type TurnPlan =
  /** One engine prefills and generates. */
  | { way: 'alone'; engineId: string; why: string }
  /** P prefills, then D reads its KV. */
  | { way: 'pull'; prefill: string; decode: string; load: TurnLoad | null; why: string }
  /** D reads P's KV while P computes it. */
  | { way: 'streamed'; prefill: string; decode: string; load: TurnLoad | null; why: string };

/** The hold of the last turn's KV that P may pull from, beyond what P has itself. */
export interface TurnLoad {
  from: string;
}

export interface Candidates {
  /** Neither list is ever empty. */
  prefill: readonly EngineView[];
  decode: readonly EngineView[];
}

/** A policy's decision and the reason for it. */
export interface Routing {
  prefill: EngineView;
  decode: EngineView;
  /** The decode engine prefills too, because a handover would cost more. */
  alone?: boolean;
  /** P computes everything it lacks, even if another engine holds it. */
  recompute?: boolean;
  /** Set if no engine should serve the turn now: the reason, with which the turn fails. */
  refused?: string;
  /** A short reason for people to read. */
  why: string;
  /** The candidates' scores; absent if the policy does not score. */
  scores?: readonly RoutingScore[];
  /** The policy's prediction of the TTFT, in milliseconds. */
  predictedTtftMs?: number;
}

export interface RoutingScore {
  engineId: string;
  side: TurnSide;
  score: number;
  /** Whether higher ('most') or lower ('least') scores are better. */
  best: 'most' | 'least';
}

/**
 * Progress of a turn, for policies that keep state. Each 'planned' is followed by one 'ended', however the turn ends.
 */
export type RoutingEvent =
  /** `prefill`: null if one engine does both. */
  | {
      kind: 'planned';
      number: number;
      prefill: string | null;
      decode: string;
      promptTokens: number;
      request: RouteRequest;
    }
  /** `ms`: from the first step that computed the prompt to the output that ended the prefill. */
  | { kind: 'prefilled'; number: number; engineId: string; ms: number; prompt: PromptAccount | null }
  /** KV was moved for the turn: from its holder to P, or from P to D. `ms`: duration of the READ. */
  | { kind: 'moved'; number: number; from: string; to: string; bytes: number; ms: number }
  | { kind: 'first token'; number: number; engineId: string; ttftMs: number }
  | { kind: 'ended'; number: number; outputTokens: number };

/** A routing policy: one file in policies/, named in policies/registry.ts. */
export interface RoutingPolicy {
  /** Must not change state: the same request, candidates and past give the same routing. */
  route(request: RouteRequest, candidates: Candidates): Routing;
  /** Absent: the policy keeps no state. */
  observe?(event: RoutingEvent): void;
  /**
   * Called when an engine has ended; its id never comes back. Absent: the policy keeps nothing about engines without
   * turns.
   */
  forget?(engineId: string): void;
}

/**
 * Plans a turn. Ended engines are candidates only if all engines of a role have ended, so that the turn fails with
 * the error that ended them. Throws RequestError if no roleset takes the prompt, or if the policy refuses the turn.
 */
export function planTurn(
  request: RouteRequest,
  engines: readonly EngineView[],
  policy: RoutingPolicy,
  placement: Placement = ANYWHERE,
): TurnPlan {
  const { mode, handover, held, turnsBefore, promptTokenIds } = request;
  const byMode = mode === 'monolithic' ? 'mode monolithic' : laterLocal(mode, turnsBefore);
  const turn = { promptTokens: promptTokenIds.length, alone: byMode !== null };
  const placed = place(turn, engines, placement);
  const routing = routed(request, placed, policy, placement);
  const { prefill, decode, why, alone: local, recompute, refused } = routing;
  if (refused !== undefined) throw new RequestError(`the routing policy refuses the turn: ${refused}`);
  if (byMode !== null) return alone(decode, byMode);
  if (placed.alone) return alone(decode, `no P and D take this prompt: ${why}`);
  if (local) return alone(decode, why);
  const load = mode === 'bidirectional' && held && !recompute ? { from: held.engineId } : null;
  return { way: handover, prefill: prefill.engineId, decode: decode.engineId, load, why };
}

const laterLocal = (mode: Mode, turnsBefore: number): string | null =>
  mode === 'decode-local' && turnsBefore > 0 ? 'mode decode-local, after the first turn' : null;

/** If the policy pairs two rolesets in replica mode, it is asked again with P fixed and only P's partners as D. */
function routed(
  request: RouteRequest,
  { prefill, decode, alone }: Placed<EngineView>,
  policy: RoutingPolicy,
  placement: Placement,
): Routing {
  const first = policy.route(request, { prefill, decode });
  const near = partners(first.prefill, decode, placement);
  if (alone || near.includes(first.decode)) return first;
  // A round-robin policy has gone through all P since it last chose this one.
  const number = Math.floor(request.number / prefill.length);
  return policy.route({ ...request, number }, { prefill: [first.prefill], decode: near });
}

/**
 * Plans a turn again after a failure: one engine alone, each tried at most once. Engines of the prompt's rolesets
 * come first, then those that decode, then those with the fewest requests. `tried`: ids of engines that have already
 * had the turn to themselves. null: no engine is left.
 */
export function planAgain(
  promptTokens: number,
  engines: readonly EngineView[],
  tried: ReadonlySet<string>,
  { rolesets }: Placement = ANYWHERE,
): Extract<TurnPlan, { way: 'alone' }> | null {
  const left = engines.filter(({ ended, engineId }) => !ended && !tried.has(engineId));
  for (const candidates of [admittingEngines(promptTokens, left, rolesets), left]) {
    for (const role of ['decode', 'prefill'] as const) {
      const [engine] = candidates
        .filter((view) => view.role === role)
        .sort((a, b) => a.inFlight - b.inFlight);
      if (engine) return alone(engine, 'the engines or transfers of the first plan failed');
    }
  }
  return null;
}

/** Ids of the engines that a plan needs. */
export const enginesOf = (plan: TurnPlan): readonly string[] =>
  plan.way === 'alone' ? [plan.engineId] : [plan.prefill, plan.decode];

const alone = ({ engineId }: EngineView, why: string) => ({ way: 'alone' as const, engineId, why });
