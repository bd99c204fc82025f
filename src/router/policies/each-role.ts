/**
 * For policies that do not distinguish P from D: applies one rule to the engines that prefill and again to those that
 * decode.
 */
import type { EngineView, RouteRequest, RoutingPolicy, RoutingScore } from '../plan.ts';

export interface Choice {
  engine: EngineView;
  why: string;
  /** In the order of the engines; null: no score. */
  scores?: readonly (number | null)[];
  best?: RoutingScore['best'];
}

/** `rule` gets one role's engines; the list is never empty. */
export function eachRole(
  rule: (engines: readonly EngineView[], request: RouteRequest, draw: () => number) => Choice,
  draws: (turn: number) => () => number,
): RoutingPolicy {
  return {
    route(request, { prefill, decode }) {
      const draw = draws(request.number);
      const p = rule(prefill, request, draw);
      const d = rule(decode, request, draw);
      const scores = [...scoresOf(p, prefill, 'prefill'), ...scoresOf(d, decode, 'decode')];
      const why = p.why === d.why ? p.why : `P: ${p.why}; D: ${d.why}`;
      return { prefill: p.engine, decode: d.engine, why, ...(scores.length > 0 ? { scores } : {}) };
    },
  };
}

function* scoresOf(
  { scores = [], best = 'least' }: Choice,
  engines: readonly EngineView[],
  side: RoutingScore['side'],
): Generator<RoutingScore> {
  for (const [i, score] of scores.entries())
    if (score !== null) yield { engineId: engines[i]!.engineId, side, score, best };
}

export const oneOf = <T>(items: readonly T[], draw: () => number): T =>
  items[Math.min(items.length - 1, Math.floor(draw() * items.length))]!;

/** The engines with the least value, in their order. */
export function leastBy(engines: readonly EngineView[], value: (engine: EngineView) => number): EngineView[] {
  let least = Number.POSITIVE_INFINITY;
  let lowest: EngineView[] = [];
  for (const engine of engines) {
    const measured = value(engine);
    if (measured < least) {
      least = measured;
      lowest = [engine];
    } else if (measured === least) lowest.push(engine);
  }
  return lowest;
}
