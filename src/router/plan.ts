/**
 * Who serves a turn, and how: decided from the request and from views of the engines, before any of them is asked. Pure:
 * the same request and views give the same plan, on real engines, fakes, and simulated ones.
 */
import type { Handover } from '../config/cluster-schema.ts';
import type { Mode } from '../config/modes.ts';
import type { EngineRole } from './engine-client.ts';

/** What is known of an engine when a plan is made. */
export interface EngineView {
  engineId: string;
  role: EngineRole;
  /** It ended, or failed this very turn. */
  ended: boolean;
  /** Requests under way there. */
  inFlight: number;
}

/** What a plan is made for. */
export interface RouteRequest {
  /** Turns accepted before this one: what takes engines in turn goes by it. */
  number: number;
  promptTokenIds: readonly number[];
  /** The conversation's turns so far. */
  turnsBefore: number;
  mode: Mode;
  handover: Handover;
  /** Who holds KV of the conversation's last turn; null: nobody. */
  heldBy: string | null;
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

/** One file a policy, in policies/. `prefill` and `decode` are never empty; what it returns is one of each. */
export type RoutingPolicy = (
  request: RouteRequest,
  candidates: { prefill: readonly EngineView[]; decode: readonly EngineView[] },
) => { prefill: EngineView; decode: EngineView; why: string };

/**
 * Engines that ended are candidates only where all of a role did, so that the turn fails with what ended them. Throws
 * nothing; a fleet has at least one engine of each role.
 */
export function planTurn(
  request: RouteRequest,
  engines: readonly EngineView[],
  policy: RoutingPolicy,
): TurnPlan {
  const candidates = { prefill: candidatesOf('prefill', engines), decode: candidatesOf('decode', engines) };
  const { prefill, decode, why } = policy(request, candidates);
  const { mode, handover, heldBy, turnsBefore } = request;
  if (mode === 'monolithic') return alone(decode, 'mode monolithic');
  if (mode === 'decode-local' && turnsBefore > 0) return alone(decode, 'mode decode-local, a later turn');
  const load = mode === 'bidirectional' && heldBy !== null ? { from: heldBy } : null;
  return { way: handover, prefill: prefill.engineId, decode: decode.engineId, load, why };
}

/**
 * After a failure: one engine alone, each tried once, those that decode first. null: none is left.
 * `tried`: ids of engines that already had the turn to themselves.
 */
export function planAgain(
  engines: readonly EngineView[],
  tried: ReadonlySet<string>,
): Extract<TurnPlan, { way: 'alone' }> | null {
  const left = [...candidates('decode', engines), ...candidates('prefill', engines)];
  const engine = left.find(({ ended, engineId }) => !ended && !tried.has(engineId));
  return engine ? alone(engine, 'the engines or transfers of the first plan failed') : null;
}

/** Ids of the engines that a plan needs. */
export const enginesOf = (plan: TurnPlan): readonly string[] =>
  plan.way === 'alone' ? [plan.engineId] : [plan.prefill, plan.decode];

const alone = ({ engineId }: EngineView, why: string) => ({ way: 'alone' as const, engineId, why });

const candidates = (role: EngineRole, engines: readonly EngineView[]): readonly EngineView[] =>
  engines.filter((engine) => engine.role === role);

function candidatesOf(role: EngineRole, engines: readonly EngineView[]): readonly EngineView[] {
  const all = candidates(role, engines);
  const serving = all.filter(({ ended }) => !ended);
  return serving.length > 0 ? serving : all;
}
