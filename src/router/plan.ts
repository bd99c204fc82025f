/**
 * Who serves a turn, and how: decided from the request and from views of the engines, before any of them is asked. Pure:
 * the same request and views give the same plan, on real engines, fakes, and simulated ones.
 */

import type { Handover } from '../config/cluster-schema.ts';
import type { Mode } from '../config/modes.ts';
import type { TokenIds } from '../config/token-ids.ts';
import type { EngineLoad } from '../engine/inspect/engine-load.ts';
import type { PromptAccount } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { TurnSide } from '../measure/spans.ts';
import type { EngineRole } from './engine-client.ts';
import { ANYWHERE, type Placed, type Placement, partners, place, whoTakes } from './placement.ts';

/** What is known of an engine when a plan is made. */
export interface EngineView {
  engineId: string;
  role: EngineRole;
  /** Absent: the one that all are in. */
  roleset?: string;
  /** It serves whole turns, where no P and D can; absent: it does not. */
  combined?: boolean;
  /** It ended, or failed this very turn. */
  ended: boolean;
  /** Requests of this router that are under way there: exact, whatever the signals say. */
  inFlight: number;
  /** As old as a scraped metric would be; null: it has told nothing yet. */
  signals: EngineSignals | null;
}

/** What an engine told of itself. */
export type EngineSignals = EngineLoad;

/** What a plan is made for. A policy never sees how long the answer will be. */
export interface RouteRequest {
  /** Turns accepted before this one: what takes engines in turn goes by it. */
  number: number;
  /** On the shared clock, milliseconds. */
  nowMs: number;
  conversationId: string;
  promptTokenIds: TokenIds;
  /** The conversation's turns so far. */
  turnsBefore: number;
  mode: Mode;
  handover: Handover;
  /** Who holds KV of the conversation's last turn, and of how many tokens; null: nobody. */
  held: { engineId: string; tokens: number } | null;
  /** Leading tokens of the prompt that an engine is known to have in its prefix cache. */
  cachedTokens: (engineId: string) => number;
}

/** `why`: one sentence's worth, for people. */
export type TurnPlan =
  /** One engine prefills and generates. */
  | { way: 'alone'; engineId: string; why: string }
  /** P prefills, then D reads its KV. */
  | { way: 'pull'; prefill: string; decode: string; load: TurnLoad | null; why: string }
  /** D reads P's KV while P computes it. */
  | { way: 'streamed'; prefill: string; decode: string; load: TurnLoad | null; why: string };

/** What P may pull of the last turn's KV, beyond what it has itself. */
export interface TurnLoad {
  from: string;
}

export interface Candidates {
  /** Neither is ever empty. */
  prefill: readonly EngineView[];
  decode: readonly EngineView[];
}

/** What a policy chose, and how it came to it. */
export interface Routing {
  prefill: EngineView;
  decode: EngineView;
  /** The decode engine prefills too: the hand-over would cost more. */
  alone?: boolean;
  /** P computes all that it lacks itself, whoever holds it. */
  recompute?: boolean;
  /** Nobody should serve it now, and why: the turn fails with that. */
  refused?: string;
  /** One sentence's worth, for people. */
  why: string;
  /** What candidates scored; of whom there is none, the policy did not score. */
  scores?: readonly RoutingScore[];
  /** What it takes the time to the first token to be, milliseconds. */
  predictedTtftMs?: number;
}

export interface RoutingScore {
  engineId: string;
  side: TurnSide;
  score: number;
  /** Whether a higher or a lower score is better. */
  best: 'most' | 'least';
}

/** What came of a turn, for policies that keep track. Each 'planned' is followed by one 'ended', however the turn ends. */
export type RoutingEvent =
  /** `prefill`: null where one engine does both. */
  | {
      kind: 'planned';
      number: number;
      prefill: string | null;
      decode: string;
      promptTokens: number;
      request: RouteRequest;
    }
  /** `ms`: from the first step that computed it to the output that ends the prefill. */
  | { kind: 'prefilled'; number: number; engineId: string; ms: number; prompt: PromptAccount | null }
  /** KV was moved for it: to P from who held it, or from P to D. `ms`: from the READ's posting to its end. */
  | { kind: 'moved'; number: number; from: string; to: string; bytes: number; ms: number }
  | { kind: 'first token'; number: number; engineId: string; ttftMs: number }
  | { kind: 'ended'; number: number; outputTokens: number };

/** One file a policy, in policies/, named in policies/registry.ts. */
export interface RoutingPolicy {
  /** Only reads: the same request, candidates and past give the same routing. */
  route(request: RouteRequest, candidates: Candidates): Routing;
  /** Absent: it keeps no track. */
  observe?(event: RoutingEvent): void;
  /** The engine has ended, and its id never comes back. Absent: it keeps nothing of engines that have no turns. */
  forget?(engineId: string): void;
}

/**
 * Engines that ended are candidates only where all of a role did, so that the turn fails with what ended them. Throws
 * RequestError when no roleset takes the prompt, and when the policy refuses the turn.
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
  if (placed.alone) return alone(decode, `no P and D that take it: ${why}`);
  if (local) return alone(decode, why);
  const load = mode === 'bidirectional' && held && !recompute ? { from: held.engineId } : null;
  return { way: handover, prefill: prefill.engineId, decode: decode.engineId, load, why };
}

const laterLocal = (mode: Mode, turnsBefore: number): string | null =>
  mode === 'decode-local' && turnsBefore > 0 ? 'mode decode-local, a later turn' : null;

/** A pair over two rolesets is asked for again with P as it is, among its partners. */
function routed(
  request: RouteRequest,
  { prefill, decode, alone }: Placed<EngineView>,
  policy: RoutingPolicy,
  placement: Placement,
): Routing {
  const first = policy.route(request, { prefill, decode });
  const near = partners(first.prefill, decode, placement);
  if (alone || near.includes(first.decode)) return first;
  // What takes engines in turn has been through all P since it last came to this one.
  const number = Math.floor(request.number / prefill.length);
  return policy.route({ ...request, number }, { prefill: [first.prefill], decode: near });
}

/**
 * After a failure: one engine alone, each tried once. Those of the prompt's rolesets first, of these those that decode, of
 * these the one with the least to do. null: none is left. `tried`: ids of engines that already had the turn to themselves.
 */
export function planAgain(
  promptTokens: number,
  engines: readonly EngineView[],
  tried: ReadonlySet<string>,
  { rolesets }: Placement = ANYWHERE,
): Extract<TurnPlan, { way: 'alone' }> | null {
  const left = engines.filter(({ ended, engineId }) => !ended && !tried.has(engineId));
  for (const among of [whoTakes(promptTokens, left, rolesets), left]) {
    for (const role of ['decode', 'prefill'] as const) {
      const [engine] = among
        .filter((view) => view.role === role)
        .sort((one, other) => one.inFlight - other.inFlight);
      if (engine) return alone(engine, 'the engines or transfers of the first plan failed');
    }
  }
  return null;
}

/** Ids of the engines that a plan needs. */
export const enginesOf = (plan: TurnPlan): readonly string[] =>
  plan.way === 'alone' ? [plan.engineId] : [plan.prefill, plan.decode];

const alone = ({ engineId }: EngineView, why: string) => ({ way: 'alone' as const, engineId, why });
