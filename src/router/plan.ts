/**
 * Who serves a turn, and how: decided from the request and from views of the engines, before any of them is asked. Pure:
 * the same request and views give the same plan, on real engines, fakes, and simulated ones.
 */
import type { Handover } from '../config/cluster-schema.ts';
import type { Mode } from '../config/modes.ts';
import type { PromptAccount } from '../engine/types.ts';
import { RequestError } from '../errors.ts';
import type { TurnSide } from '../measure/spans.ts';
import type { EngineRole } from './engine-client.ts';

/** What is known of an engine when a plan is made. */
export interface EngineView {
  engineId: string;
  role: EngineRole;
  /** It ended, or failed this very turn. */
  ended: boolean;
  /** Requests of this router that are under way there: exact, whatever the signals say. */
  inFlight: number;
  /** Engines of one roleset serve a turn together where the fleet is made of such; absent: the only one. */
  roleset?: string;
  /** As old as a scraped metric would be; null: it has told nothing yet. */
  signals: EngineSignals | null;
}

/** What an engine told of itself. */
export interface EngineSignals {
  /** When, on the shared clock, milliseconds. */
  atMs: number;
  running: number;
  waiting: number;
  waitingForRemote: number;
  freeBlocks: number;
  /** The null block does not count. */
  numBlocks: number;
  /** Over the last window: tokens a second, and requests that ended a second. */
  promptTokensPerSecond: number;
  generationTokensPerSecond: number;
  endedPerSecond: number;
}

/** What a plan is made for. A policy never sees how long the answer will be. */
export interface RouteRequest {
  /** Turns accepted before this one: what takes engines in turn goes by it. */
  number: number;
  /** On the shared clock, milliseconds. */
  nowMs: number;
  conversationId: string;
  promptTokenIds: readonly number[];
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
}

/**
 * Engines that ended are candidates only where all of a role did, so that the turn fails with what ended them. A
 * fleet has at least one engine of each role. Throws RequestError where the policy refuses the turn.
 */
export function planTurn(
  request: RouteRequest,
  engines: readonly EngineView[],
  policy: RoutingPolicy,
): TurnPlan {
  const candidates = { prefill: candidatesOf('prefill', engines), decode: candidatesOf('decode', engines) };
  const { prefill, decode, why, alone: local, recompute, refused } = policy.route(request, candidates);
  if (refused !== undefined) throw new RequestError(`the routing policy refuses the turn: ${refused}`);
  const { mode, handover, held, turnsBefore } = request;
  if (mode === 'monolithic') return alone(decode, 'mode monolithic');
  if (mode === 'decode-local' && turnsBefore > 0) return alone(decode, 'mode decode-local, a later turn');
  if (local) return alone(decode, why);
  const load = mode === 'bidirectional' && held && !recompute ? { from: held.engineId } : null;
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
