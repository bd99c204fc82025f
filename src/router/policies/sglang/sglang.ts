/**
 * SGLang's model gateway with P and D (sgl-model-gateway, policies/): one policy per role, by default cache_aware for
 * P and power_of_two for D, as in its example for disaggregation. Load is this router's requests under way. SGLang
 * counts characters; this counts tokens. A prompt that no P was sent enough of goes to the least loaded P, as in
 * SGLang's code since December 2025; its comments still say the smallest tree.
 */

import { z } from 'zod';
import { written } from '../../../config/token-ids.ts';
import type {
  Candidates,
  EngineView,
  RouteRequest,
  Routing,
  RoutingEvent,
  RoutingPolicy,
} from '../../plan.ts';
import { definePolicy, type RoutingDeps } from '../definition.ts';
import { oneOf } from '../each-role.ts';
import { leastOf, maxOf, minOf } from '../pick.ts';
import { Buckets } from './buckets.ts';
import { PrefixTree } from './prefix-tree.ts';

const SIMPLE = ['power_of_two', 'round_robin', 'random'] as const;

const parameters = z.strictObject({
  prefillPolicy: z.enum(['cache_aware', 'bucket', ...SIMPLE]).default('cache_aware'),
  decodePolicy: z.enum(SIMPLE).default('power_of_two'),
  /** A prompt goes to the engine believed to have it cached if that share of the prompt is above this. */
  cacheThreshold: z.number().min(0).max(1).default(0.3),
  /**
   * Loads are unbalanced if most minus least is above balanceAbsThreshold and most is above balanceRelThreshold times
   * least.
   */
  balanceAbsThreshold: z.number().nonnegative().default(64),
  balanceRelThreshold: z.number().min(1).default(1.5),
  evictionIntervalSecs: z.number().positive().default(120),
  /** Limit on the tree's tokens per engine. */
  maxTreeSize: z.number().int().positive().default(67_108_864),
  bucketAdjustIntervalSecs: z.number().positive().default(5),
});

export type SglangParameters = z.output<typeof parameters>;

interface Choice {
  engine: EngineView;
  why: string;
}

class SglangPolicy implements RoutingPolicy {
  readonly #parameters: SglangParameters;
  readonly #deps: RoutingDeps;
  readonly #tree = new PrefixTree();
  readonly #buckets: Buckets;
  #evictedMs: number | null = null;

  constructor(values: SglangParameters, deps: RoutingDeps) {
    this.#parameters = values;
    this.#deps = deps;
    this.#buckets = new Buckets(values.bucketAdjustIntervalSecs * 1000);
  }

  route(request: RouteRequest, { prefill, decode }: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const { prefillPolicy, decodePolicy } = this.#parameters;
    const p =
      prefillPolicy === 'cache_aware'
        ? this.#cacheAware(request, prefill, draw)
        : prefillPolicy === 'bucket'
          ? this.#bucket(request, prefill, draw)
          : simple(prefillPolicy, prefill, request.number, draw);
    const d = simple(decodePolicy, decode, request.number, draw);
    return { prefill: p.engine, decode: d.engine, why: `P: ${p.why}; D: ${d.why}` };
  }

  observe(event: RoutingEvent): void {
    if (event.kind !== 'planned' || event.prefill === null) return;
    const { prefill, promptTokens, request } = event;
    const { prefillPolicy, evictionIntervalSecs, maxTreeSize } = this.#parameters;
    if (prefillPolicy === 'bucket') {
      this.#buckets.record({ engineId: prefill, tokens: promptTokens, atMs: request.nowMs });
    }
    if (prefillPolicy !== 'cache_aware') return;
    this.#tree.insert(written(request.promptTokenIds), prefill, request.nowMs);
    this.#evictedMs ??= request.nowMs;
    if (request.nowMs - this.#evictedMs < evictionIntervalSecs * 1000) return;
    this.#evictedMs = request.nowMs;
    this.#tree.evict(maxTreeSize);
  }

  forget(engineId: string): void {
    this.#tree.forget(engineId);
  }

  #cacheAware({ promptTokenIds }: RouteRequest, engines: readonly EngineView[], draw: () => number): Choice {
    const underWay = ({ inFlight }: EngineView) => inFlight;
    const unbalanced = this.#unbalanced(engines, underWay);
    if (unbalanced) return { engine: leastOf(engines, underWay, draw)!, why: unbalanced };
    const byId = new Map(engines.map((engine) => [engine.engineId, engine]));
    const { tokens, engineId } = this.#tree.match(written(promptTokenIds), new Set(byId.keys()));
    const share = promptTokenIds.length > 0 ? tokens / promptTokenIds.length : 0;
    if (share > this.#parameters.cacheThreshold && engineId !== null) {
      return { engine: byId.get(engineId)!, why: `was sent ${tokens} of these tokens` };
    }
    return { engine: leastOf(engines, underWay, draw)!, why: 'least load: no P was sent enough of this' };
  }

  #bucket({ promptTokenIds }: RouteRequest, engines: readonly EngineView[], draw: () => number): Choice {
    const load = ({ engineId }: EngineView) => this.#buckets.load(engineId);
    const unbalanced = this.#unbalanced(engines, load);
    if (unbalanced) return { engine: leastOf(engines, load, draw)!, why: `${unbalanced} tokens` };
    const place = this.#buckets.rangeOf(engines.length, promptTokenIds.length);
    return { engine: engines[place]!, why: `takes prompts of ${promptTokenIds.length} tokens` };
  }

  /** Both comparisons are strict, and both must hold. */
  #unbalanced(engines: readonly EngineView[], load: (engine: EngineView) => number): string | null {
    const most = maxOf(engines, load);
    const least = minOf(engines, load);
    const { balanceAbsThreshold, balanceRelThreshold } = this.#parameters;
    const is = most - least > balanceAbsThreshold && most > balanceRelThreshold * least;
    return is ? `least load, from ${least} to ${most}` : null;
  }
}

function simple(
  policy: (typeof SIMPLE)[number],
  engines: readonly EngineView[],
  turn: number,
  draw: () => number,
): Choice {
  if (policy === 'round_robin') return { engine: engines[turn % engines.length]!, why: 'in turn' };
  const first = oneOf(engines, draw);
  if (policy === 'random' || engines.length === 1) return { engine: first, why: 'drawn' };
  const second = oneOf(
    engines.filter((engine) => engine !== first),
    draw,
  );
  return { engine: second.inFlight < first.inFlight ? second : first, why: 'the less busy of two' };
}

export const sglang = definePolicy({
  help: 'P by where the prefix was sent, if loads are balanced; D the less busy of two',
  source: "SGLang's model gateway",
  needs: [],
  parameters,
  create: (values, deps) => new SglangPolicy(values, deps),
});
