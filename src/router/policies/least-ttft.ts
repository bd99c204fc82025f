/**
 * kvferry's own policy: predicts the TTFT for every P, D and source of KV (P computes, or P pulls from the holder of
 * the last turn), and takes the least. Costs are learned from outcomes (cost-tracker.ts): prefill by its tokens and
 * the work ahead of it, moves by bytes, link and the holder's load, D's first step by D's load.
 *
 * It considers the TTFT only. It does not count that a prefill on D delays D's other requests, so D prefills only if
 * `alone` allows it.
 */
import { z } from 'zod';
import type { Candidates, EngineView, RouteRequest, Routing, RoutingEvent, RoutingPolicy } from '../plan.ts';
import { CostTracker } from './cost-tracker.ts';
import { definePolicy, type RoutingDeps } from './definition.ts';
import { scoresOf } from './pick.ts';
import { priorCosts } from './prior-costs.ts';

const parameters = z.strictObject({
  /** Lets D prefill on its own if that is sooner, although the tokens of D's other requests then wait. */
  alone: z.boolean().default(false),
  ...priorCosts,
});

interface Prefill {
  engine: EngineView;
  ms: number;
  pullTokens: number;
}

interface Decode {
  engine: EngineView;
  bytes: number;
  firstStepMs: number;
  /** Lower bound for any P. */
  leastMs: number;
}

interface Chosen {
  prefill: Prefill;
  decode: Decode;
  ms: number;
}

class LeastTtft implements RoutingPolicy {
  readonly #deps: RoutingDeps;
  readonly #alone: boolean;
  readonly #tracker: CostTracker;

  constructor({ alone, ...prior }: z.output<typeof parameters>, deps: RoutingDeps) {
    this.#deps = deps;
    this.#alone = alone;
    this.#tracker = new CostTracker(prior, deps.kvBytes);
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const prefills = rotated(candidates.prefill, draw).map((engine) => this.#prefill(request, engine));
    const decodes = rotated(candidates.decode, draw).map((engine) => this.#decode(request, engine));
    const { prefill, decode, ms } = this.#least(prefills, decodes);
    const scores = [
      ...scoresOf(
        'prefill',
        prefills.map(({ engine, ms }) => ({ engine, score: ms })),
      ),
      ...scoresOf(
        'decode',
        decodes.map((d) => ({ engine: d.engine, score: this.#afterMs(prefill, d) })),
      ),
    ];
    const local = this.#alone ? this.#leastAlone(request, decodes) : null;
    if (local && local.ms < ms) {
      const why = `~${local.ms.toFixed(1)} ms alone, ~${ms.toFixed(1)} over P`;
      return {
        prefill: prefill.engine,
        decode: local.engine,
        alone: true,
        why,
        scores,
        predictedTtftMs: local.ms,
      };
    }
    const { pullTokens } = prefill;
    const source =
      pullTokens > 0 ? `${pullTokens} tokens pulled from ${request.held!.engineId}` : 'nothing pulled';
    return {
      prefill: prefill.engine,
      decode: decode.engine,
      recompute: pullTokens === 0,
      why: `~${ms.toFixed(1)} ms: P ~${prefill.ms.toFixed(1)} with ${source}, then D ~${(ms - prefill.ms).toFixed(1)}`,
      scores,
      predictedTtftMs: ms,
    };
  }

  observe(event: RoutingEvent): void {
    this.#tracker.observe(event);
  }

  forget(engineId: string): void {
    this.#tracker.costs.forget(engineId);
  }

  #prefill(request: RouteRequest, engine: EngineView): Prefill {
    return { engine, ...this.#tracker.prefill(request, engine.engineId) };
  }

  #decode(request: RouteRequest, engine: EngineView): Decode {
    const { costs, underWay } = this.#tracker;
    const bytes = this.#tracker.handOverBytes(request, engine.engineId);
    const firstStepMs = costs.firstStepMs(underWay.at(engine.engineId).decodes);
    const leastMs = firstStepMs + costs.leastMoveMs(bytes);
    return { engine, bytes, firstStepMs, leastMs };
  }

  #afterMs({ engine: { engineId: from } }: Prefill, { engine, bytes, firstStepMs }: Decode): number {
    return firstStepMs + this.#tracker.moveMs(from, engine.engineId, bytes);
  }

  /** The pair with the least sum. Skips pairs that cannot be better than the best one found. */
  #least(prefills: readonly Prefill[], decodes: readonly Decode[]): Chosen {
    const soonestP = [...prefills].sort((a, b) => a.ms - b.ms);
    const soonestD = [...decodes].sort((a, b) => a.leastMs - b.leastMs);
    let best: Chosen | null = null;
    for (const prefill of soonestP) {
      if (best && prefill.ms + soonestD[0]!.leastMs >= best.ms) break;
      for (const decode of soonestD) {
        if (best && prefill.ms + decode.leastMs >= best.ms) break;
        const ms = prefill.ms + this.#afterMs(prefill, decode);
        if (!best || ms < best.ms) best = { prefill, decode, ms };
      }
    }
    return best!;
  }

  #leastAlone(request: RouteRequest, decodes: readonly Decode[]): { engine: EngineView; ms: number } {
    const each = decodes.map(({ engine, firstStepMs }) => ({
      engine,
      ms: this.#tracker.prefill(request, engine.engineId, 'never').ms + firstStepMs,
    }));
    return each.reduce((a, b) => (b.ms < a.ms ? b : a));
  }
}

/** Rotates the list by a random offset, so that ties are broken at random. */
function rotated(engines: readonly EngineView[], draw: () => number): readonly EngineView[] {
  const first = Math.floor(draw() * engines.length);
  return first === 0 ? engines : [...engines.slice(first), ...engines.slice(0, first)];
}

export const leastTtft = definePolicy({
  help: 'the least predicted time to the first token over every P, D and source of KV',
  source: "kvferry's own",
  needs: ['cache'],
  parameters,
  create: (values, deps) => new LeastTtft(values, deps),
});
