/** Records one turn's routing decision: the candidates, what was known of each, which engines were chosen and why. */
import { invariant } from '../errors.ts';
import { type RawSpan, routerSpan, type TurnSide } from '../measure/spans/spans.ts';
import type { Candidates, RouteRequest, Routing, RoutingPolicy, TurnPlan } from './plan.ts';

export interface RoutedTurn {
  /** The policy's name as the user gave it. */
  policy: string;
  way: TurnPlan['way'];
  /** null: the decode engine did both. */
  prefill: string | null;
  decode: string;
  /** The engine offered to P as holder of the last turn's KV; null: none. */
  load: string | null;
  why: string;
  predictedTtftMs: number | null;
  /** When the decision was made, in milliseconds on the shared clock. */
  startMs: number;
  endMs: number;
  candidates: readonly RoutedCandidate[];
}

export interface RoutedCandidate {
  engineId: string;
  side: TurnSide;
  inFlight: number;
  /** What the engine had reported; null: no report is known. */
  running: number | null;
  waiting: number | null;
  /** Age of that report, in milliseconds. */
  ageMs: number | null;
  /**
   * Leading tokens of the prompt that the engine was known to have cached; null: the policy does not look at caches.
   */
  cachedTokens: number | null;
  /** null: the policy does not score. */
  score: number | null;
  best: 'most' | 'least' | null;
}

interface Decision {
  request: RouteRequest;
  candidates: Candidates;
  routing: Routing;
}

/** Wraps a policy for one turn and keeps its input and its decision. */
export class RecordingPolicy implements RoutingPolicy {
  readonly #policy: RoutingPolicy;
  #decision: Decision | null = null;

  constructor(policy: RoutingPolicy) {
    this.#policy = policy;
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const routing = this.#policy.route(request, candidates);
    for (const side of ['prefill', 'decode'] as const)
      invariant(
        candidates[side].includes(routing[side]) ||
          candidates[side].some(({ engineId }) => engineId === routing[side].engineId),
        () => `the routing policy chose ${routing[side].engineId} to ${side}, which is not a candidate`,
      );
    this.#decision = { request, candidates, routing };
    return routing;
  }

  /**
   * The decision, with what was known then: call before anything else is served. `cache`: the policy looks at caches.
   * Candidates are listed only when they are read: most turns' never are, and a fleet may have a thousand engines.
   */
  read(plan: TurnPlan, policy: string, cache: boolean): Omit<RoutedTurn, 'startMs' | 'endMs'> {
    const decision = this.#decision;
    const anyEngine = decision?.candidates.prefill[0] ?? decision?.candidates.decode[0];
    // Cache contents are looked up at the first question, so ask now.
    if (cache && decision && anyEngine) decision.request.cachedTokens(anyEngine.engineId);
    let candidates: readonly RoutedCandidate[] | null = null;
    const alone = plan.way === 'alone';
    return {
      policy,
      way: plan.way,
      prefill: alone ? null : plan.prefill,
      decode: alone ? plan.engineId : plan.decode,
      load: alone ? null : (plan.load?.from ?? null),
      why: plan.why,
      predictedTtftMs: decision?.routing.predictedTtftMs ?? null,
      get candidates() {
        candidates ??= decision ? candidatesOf(decision, cache) : [];
        return candidates;
      },
    };
  }
}

function candidatesOf(
  { request, candidates, routing }: Decision,
  cache: boolean,
): readonly RoutedCandidate[] {
  const scores = new Map(routing.scores?.map((each) => [`${each.side} ${each.engineId}`, each]));
  const of = (side: TurnSide): RoutedCandidate[] =>
    candidates[side].map(({ engineId, inFlight, signals }) => {
      const scored = scores.size > 0 ? scores.get(`${side} ${engineId}`) : undefined;
      return {
        engineId,
        side,
        inFlight,
        running: signals?.running ?? null,
        waiting: signals?.waiting ?? null,
        ageMs: signals && Math.max(0, request.nowMs - signals.atMs),
        cachedTokens: cache ? request.cachedTokens(engineId) : null,
        score: scored?.score ?? null,
        best: scored?.best ?? null,
      };
    });
  return [...of('prefill'), ...of('decode')];
}

/** The decision as a span of the turn, for timelines. */
export function routeSpan(turnId: string, routed: RoutedTurn): RawSpan {
  const { policy, way, prefill, decode, load, why, predictedTtftMs, startMs, endMs, candidates } = routed;
  const scored = candidates.filter(({ score }) => score !== null);
  return routerSpan('route', turnId, startMs, endMs, {
    policy,
    way,
    ...(prefill === null ? {} : { prefill }),
    decode,
    ...(load === null ? {} : { load }),
    why,
    ...(predictedTtftMs === null ? {} : { predictedTtftMs }),
    candidates: candidates.length,
    ...(scored.length === 0
      ? {}
      : { scores: scored.map(({ engineId, side, score }) => `${engineId} as ${side} ${score}`).join(', ') }),
  });
}
