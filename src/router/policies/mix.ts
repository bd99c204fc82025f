/**
 * Combines several policies by weight, as AIBrix mixes strategies ("a:w,b:w"). Each policy's scores are min-max
 * normalised to [0, 1] with 1 as its best; an engine without a score gets 0. Weights are normalised to sum 1. The
 * highest sum wins; of equal sums, the first. A policy without scores gives 1 to the engine that it chose.
 *
 * Three choices unknown to AIBrix need policies with more than half of the weight: serving on one engine alone,
 * recomputing what is held elsewhere, and refusing the turn.
 */
import type { EngineView, Routing, RoutingPolicy, RoutingScore } from '../plan.ts';

export interface Part {
  name: string;
  weight: number;
  policy: RoutingPolicy;
}

export function mixed(parts: readonly Part[]): RoutingPolicy {
  const total = parts.reduce((sum, { weight }) => sum + weight, 0);
  return {
    route(request, candidates) {
      const routings = parts.map(({ policy, weight }) => ({
        routing: policy.route(request, candidates),
        weight: weight / total,
      }));
      const best = (side: RoutingScore['side']) => summed(side, candidates[side], routings);
      const [prefill, decode] = [best('prefill'), best('decode')];
      const most = (says: (routing: Routing) => unknown): boolean =>
        routings.reduce((sum, { routing, weight }) => sum + (says(routing) ? weight : 0), 0) > 0.5;
      const refuse = most(({ refused }) => refused !== undefined);
      const refused = refuse && routings.flatMap(({ routing }) => routing.refused ?? [])[0];
      return {
        prefill: prefill.engine,
        decode: decode.engine,
        alone: most(({ alone }) => alone),
        recompute: most(({ recompute }) => recompute),
        ...(refused && { refused }),
        why: `the highest sums of ${parts.map(({ name }) => name).join(' and ')}`,
        scores: [...prefill.scores, ...decode.scores],
      };
    },
    observe(event) {
      for (const { policy } of parts) policy.observe?.(event);
    },
    forget(engineId) {
      for (const { policy } of parts) policy.forget?.(engineId);
    },
  };
}

function summed(
  side: RoutingScore['side'],
  engines: readonly EngineView[],
  routings: readonly { routing: Routing; weight: number }[],
): { engine: EngineView; scores: RoutingScore[] } {
  const sums = new Map(engines.map(({ engineId }) => [engineId, 0]));
  for (const { routing, weight } of routings)
    for (const [engineId, score] of normalised(side, routing))
      sums.set(engineId, (sums.get(engineId) ?? 0) + weight * score);
  const scores = engines.map(({ engineId }) => {
    return { engineId, side, score: sums.get(engineId)!, best: 'most' } as const;
  });
  const most = scores.reduce((a, b) => (b.score > a.score ? b : a));
  return { engine: engines[scores.indexOf(most)]!, scores };
}

/** If all scores are equal, each gets 1. */
function* normalised(
  side: RoutingScore['side'],
  routing: Routing,
): Generator<[engineId: string, score: number]> {
  const scores = routing.scores?.filter((score) => score.side === side) ?? [];
  if (scores.length === 0) yield [routing[side].engineId, 1];
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (const { score } of scores) {
    least = Math.min(least, score);
    most = Math.max(most, score);
  }
  for (const { engineId, score, best } of scores) {
    const share = most === least ? 1 : (score - least) / (most - least);
    yield [engineId, best === 'most' || most === least ? share : 1 - share];
  }
}
