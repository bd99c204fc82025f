/** One turn's routing, kept so that it can be read: who could have served, what was known of each, who was chosen and why. */
import { invariant } from '../errors.ts';
import { type RawSpan, routerSpan, type TurnSide } from '../measure/spans.ts';
import type { Candidates, RouteRequest, Routing, RoutingPolicy, TurnPlan } from './plan.ts';

export interface RoutedTurn {
  /** As the user names it. */
  policy: string;
  way: TurnPlan['way'];
  /** null: the decode engine did both. */
  prefill: string | null;
  decode: string;
  /** Who was offered to P as a holder of the last turn's KV. */
  load: string | null;
  why: string;
  predictedTtftMs: number | null;
  /** When it was made, on the shared clock, milliseconds. */
  startMs: number;
  endMs: number;
  candidates: readonly RoutedCandidate[];
}

export interface RoutedCandidate {
  engineId: string;
  side: TurnSide;
  inFlight: number;
  /** What it had told; null: nothing, or nobody had asked. */
  running: number | null;
  waiting: number | null;
  /** How old that was, milliseconds. */
  ageMs: number | null;
  /** Leading tokens of the prompt that it was known to have; null: the policy does not look at caches. */
  cachedTokens: number | null;
  /** null: the policy does not score. */
  score: number | null;
  best: 'most' | 'least' | null;
}

interface Decided {
  request: RouteRequest;
  candidates: Candidates;
  routing: Routing;
}

/** A policy for one turn that keeps what it was asked and what it said. */
export class DecidedBy implements RoutingPolicy {
  readonly #policy: RoutingPolicy;
  #made: Decided | null = null;

  constructor(policy: RoutingPolicy) {
    this.#policy = policy;
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const routing = this.#policy.route(request, candidates);
    for (const side of ['prefill', 'decode'] as const)
      invariant(
        candidates[side].includes(routing[side]) ||
          candidates[side].some(({ engineId }) => engineId === routing[side].engineId),
        () =>
          `the routing policy chose ${routing[side].engineId} to ${side}, which is none of its candidates`,
      );
    this.#made = { request, candidates, routing };
    return routing;
  }

  /**
   * What was decided, as it was known then: call before anything else is served. `cache`: the policy looks at caches. Its
   * candidates are put down when somebody reads them: nobody does of most turns, and a fleet may have a thousand engines.
   */
  read(plan: TurnPlan, policy: string, cache: boolean): Omit<RoutedTurn, 'startMs' | 'endMs'> {
    const made = this.#made;
    const anyone = made?.candidates.prefill[0] ?? made?.candidates.decode[0];
    // What caches hold is looked up once, when it is first asked for: now.
    if (cache && made && anyone) made.request.cachedTokens(anyone.engineId);
    let candidates: readonly RoutedCandidate[] | null = null;
    const alone = plan.way === 'alone';
    return {
      policy,
      way: plan.way,
      prefill: alone ? null : plan.prefill,
      decode: alone ? plan.engineId : plan.decode,
      load: alone ? null : (plan.load?.from ?? null),
      why: plan.why,
      predictedTtftMs: made?.routing.predictedTtftMs ?? null,
      get candidates() {
        candidates ??= made ? candidatesOf(made, cache) : [];
        return candidates;
      },
    };
  }
}

function candidatesOf({ request, candidates, routing }: Decided, cache: boolean): readonly RoutedCandidate[] {
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

/** The decision as a span of the turn's, for timelines. */
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
