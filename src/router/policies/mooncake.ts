/**
 * Mooncake's conductor (FAST '25, algorithm 1): the P with the least estimated time to the first token, where KV that is held
 * elsewhere is pulled once it is so much longer than what P has; the D that decodes soonest. With SLOs a request that would
 * miss them is refused before it costs anything (early rejection); without, all are served.
 *
 * There, any P's cache can be copied to any other; here what is held for the conversation's next turn can. Its times come from
 * profiles made beforehand, these are learned (cost-tracker.ts).
 */
import { z } from 'zod';
import type { Candidates, EngineView, RouteRequest, Routing, RoutingEvent, RoutingPolicy } from '../plan.ts';
import { CostTracker, type PrefillWay } from './cost-tracker.ts';
import { definePolicy, type RoutingDeps } from './definition.ts';
import { leastOf } from './pick.ts';
import { priorCosts } from './prior-costs.ts';

const parameters = z.strictObject({
  /** Held tokens for each that P has; from it on they are pulled, below it P computes. */
  kvcacheBalancingThreshold: z.number().positive().default(1.5),
  /** A turn that is estimated above is refused; null: none is. */
  ttftSloMs: z.number().positive().nullable().default(null),
  tbtSloMs: z.number().positive().nullable().default(null),
  ...priorCosts,
});

/** A request's share of a step, where no D generates. */
const UNKNOWN_TBT_MS = 20;

class Mooncake implements RoutingPolicy {
  readonly #parameters: z.output<typeof parameters>;
  readonly #deps: RoutingDeps;
  readonly #tracker: CostTracker;

  constructor(given: z.output<typeof parameters>, deps: RoutingDeps) {
    this.#parameters = given;
    this.#deps = deps;
    this.#tracker = new CostTracker(given, deps.kvBytes);
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const ways = new Map(candidates.prefill.map((engine) => [engine, this.#way(request, engine)]));
    const ttft = (engine: EngineView) => ways.get(engine)!.ms;
    const prefill = leastOf(candidates.prefill, ttft, draw)!;
    const tbtMs = tbtOf(candidates.decode);
    const decode = leastOf(candidates.decode, tbtMs, draw)!;
    const [ttftMs, tbt] = [ttft(prefill), tbtMs(decode)];
    const { ttftSloMs, tbtSloMs } = this.#parameters;
    const refused =
      ttftSloMs !== null && ttftMs > ttftSloMs
        ? `its first token is estimated after ${ttftMs.toFixed(1)} ms, and ${ttftSloMs} are allowed`
        : tbtSloMs !== null && tbt > tbtSloMs
          ? `its tokens are estimated ${tbt.toFixed(1)} ms apart, and ${tbtSloMs} are allowed`
          : null;
    const { pullTokens } = ways.get(prefill)!;
    const scored = (side: 'prefill' | 'decode', score: (engine: EngineView) => number) =>
      candidates[side].map((engine) => ({
        engineId: engine.engineId,
        side,
        score: score(engine),
        best: 'least' as const,
      }));
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

  /** By the ratio, not by which is sooner. */
  #way(request: RouteRequest, { engineId }: EngineView): PrefillWay {
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
 * Between two tokens of one of D's requests, with this one more: a request's share of a step times the requests. One that
 * generates nothing now is taken to be as fast as the others are.
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
  help: 'the least estimated time to the first token; refuses what would miss its SLO',
  source: "Mooncake's conductor",
  looksAt: ['load', 'cache'],
  parameters,
  create: (given, deps) => new Mooncake(given, deps),
});
