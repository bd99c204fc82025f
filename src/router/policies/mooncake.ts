/**
 * Mooncake's conductor (FAST '25, algorithm 1). P: the least estimated TTFT; KV held elsewhere is pulled if it is at
 * least kvcacheBalancingThreshold times as long as what P has. D: the least time between tokens. With SLOs, a request
 * that would miss them is refused before it costs anything (early rejection); without, all are served.
 *
 * Differences: Mooncake copies any P's cache to any other P; here only what is held for the conversation's next turn
 * can be pulled. Mooncake's times come from profiles; these are learned (cost-tracker.ts).
 */
import { z } from 'zod';
import type { Candidates, EngineView, RouteRequest, Routing, RoutingEvent, RoutingPolicy } from '../plan.ts';
import { CostTracker, type PrefillPlan } from './cost-tracker.ts';
import { definePolicy, type RoutingDeps } from './definition.ts';
import { leastOf, scoresOf } from './pick.ts';
import { priorCosts } from './prior-costs.ts';

const parameters = z.strictObject({
  /** Ratio of held tokens to tokens that P has. At or above it they are pulled, below it P computes. */
  kvcacheBalancingThreshold: z.number().positive().default(1.5),
  /** Milliseconds. A turn whose estimate is above is refused; null: no limit. tbt is the time between tokens. */
  ttftSloMs: z.number().positive().nullable().default(null),
  tbtSloMs: z.number().positive().nullable().default(null),
  ...priorCosts,
});

/** One request's share of a step, in milliseconds, if no D generates. */
const UNKNOWN_TBT_MS = 20;

class Mooncake implements RoutingPolicy {
  readonly #parameters: z.output<typeof parameters>;
  readonly #deps: RoutingDeps;
  readonly #tracker: CostTracker;

  constructor(values: z.output<typeof parameters>, deps: RoutingDeps) {
    this.#parameters = values;
    this.#deps = deps;
    this.#tracker = new CostTracker(values, deps.kvBytes);
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const ways = new Map(candidates.prefill.map((engine) => [engine, this.#plan(request, engine)]));
    const ttft = (engine: EngineView) => ways.get(engine)!.ms;
    const prefill = leastOf(candidates.prefill, ttft, draw)!;
    const tbtMs = tbtOf(candidates.decode);
    const decode = leastOf(candidates.decode, tbtMs, draw)!;
    const [ttftMs, tbt] = [ttft(prefill), tbtMs(decode)];
    const { ttftSloMs, tbtSloMs } = this.#parameters;
    const refused =
      ttftSloMs !== null && ttftMs > ttftSloMs
        ? `its estimated TTFT is ${ttftMs.toFixed(1)} ms, above the SLO of ${ttftSloMs} ms`
        : tbtSloMs !== null && tbt > tbtSloMs
          ? `its estimated time between tokens is ${tbt.toFixed(1)} ms, above the SLO of ${tbtSloMs} ms`
          : null;
    const { pullTokens } = ways.get(prefill)!;
    const scored = (side: 'prefill' | 'decode', score: (engine: EngineView) => number) =>
      scoresOf(
        side,
        candidates[side].map((engine) => ({ engine, score: score(engine) })),
      );
    return {
      prefill,
      decode,
      recompute: pullTokens === 0,
      ...(refused !== null && { refused }),
      why:
        refused ??
        `first token ~${ttftMs.toFixed(1)} ms, ${pullTokens} tokens pulled; then ~${tbt.toFixed(1)} ms each`,
      scores: [...scored('prefill', ttft), ...scored('decode', tbtMs)],
      predictedTtftMs: ttftMs,
    };
  }

  observe(event: RoutingEvent): void {
    this.#tracker.observe(event);
  }

  forget(engineId: string): void {
    this.#tracker.costs.forget(engineId);
  }

  /** Decides by the ratio, not by which is sooner. */
  #plan(request: RouteRequest, { engineId }: EngineView): PrefillPlan {
    const { held, cachedTokens, mode } = request;
    const has = cachedTokens(engineId);
    const pulls =
      mode === 'bidirectional' &&
      held !== null &&
      held.engineId !== engineId &&
      held.tokens >= this.#parameters.kvcacheBalancingThreshold * Math.max(has, 1);
    return this.#tracker.prefill(request, engineId, pulls ? 'must' : 'never');
  }
}

/**
 * Milliseconds between two tokens of one request at D, with this request added: one request's share of a step times
 * the number of requests. An engine that generates nothing now is assumed to be as fast as the others.
 */
function tbtOf(engines: readonly EngineView[]): (engine: EngineView) => number {
  const shareMs = ({ signals }: EngineView): number | null =>
    signals && signals.running > 0 && signals.generationTokensPerSecond > 0
      ? 1000 / signals.generationTokensPerSecond
      : null;
  const known = engines.map(shareMs).filter((share) => share !== null);
  const others =
    known.length > 0 ? known.reduce((sum, share) => sum + share, 0) / known.length : UNKNOWN_TBT_MS;
  return (engine) =>
    (shareMs(engine) ?? others) * (1 + Math.max(engine.inFlight, engine.signals?.running ?? 0));
}

export const mooncake = definePolicy({
  help: 'the least estimated time to the first token; refuses turns that would miss their SLO',
  source: "Mooncake's conductor",
  needs: ['load', 'cache'],
  parameters,
  create: (values, deps) => new Mooncake(values, deps),
});
