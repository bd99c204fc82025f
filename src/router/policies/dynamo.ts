/**
 * Dynamo's KV router (1.4 to 1.6: lib/kv-router/src/scheduling/selector.rs, and its docs routing-concepts and
 * conditional-disaggregation). P's cost is the blocks that it would have to prefill, minus a credit for those that it
 * has cached. D's cost is the blocks that it decodes over. With a temperature the choice is drawn at random.
 * Conditional disaggregation leaves short prompts to D, and gives D the credit, too.
 *
 * Tokens that D has generated since are not counted in its active blocks: policies are told of a turn's end, not of
 * each token. There is no credit for host or disk tiers.
 */
import { z } from 'zod';
import type { Candidates, EngineView, RouteRequest, Routing, RoutingEvent, RoutingPolicy } from '../plan.ts';
import { definePolicy, type RoutingDeps } from './definition.ts';
import { kvUsage, leastOf, maxOf, minOf, scoresOf, weightedRandom } from './pick.ts';
import { UnderWay } from './under-way.ts';

const parameters = z.strictObject({
  prefillLoadScale: z.number().nonnegative().default(1),
  /** Credit per block that is in the engine's own memory. */
  overlapCredit: z.number().nonnegative().default(1),
  /** 0: takes the least cost. */
  temperature: z.number().nonnegative().default(0),
  /**
   * When D prefills on its own: if it lacks little of the prompt (isl_bounding), if P is busy (prefill_load), if
   * either holds (isl_or_load), or never (null).
   */
  conditionalDisagg: z
    .enum(['isl_bounding', 'prefill_load', 'isl_or_load'])
    .nullable()
    .default('isl_bounding'),
  /**
   * D prefills on its own if it lacks fewer tokens than effectiveIsl and less than the share effectiveIslRatio of the
   * prompt.
   */
  effectiveIsl: z.number().nonnegative().default(2048),
  effectiveIslRatio: z.number().nonnegative().default(0.7),
  /** P is busy if more tokens than this wait there for prefill. null: it never is. */
  prefillBusyTokens: z.number().nonnegative().nullable().default(null),
  /** D takes no prefill if more than this share of its blocks is used. null: it always may. */
  decodeBusyUsage: z.number().min(0).max(1).nullable().default(null),
});

export type DynamoParameters = z.output<typeof parameters>;

class Dynamo implements RoutingPolicy {
  readonly #parameters: DynamoParameters;
  readonly #deps: RoutingDeps;
  /** Blocks that P already has need no prefill. */
  readonly #underWay = new UnderWay(({ prefill, decode, promptTokens, request }) =>
    Math.max(0, promptTokens - request.cachedTokens(prefill ?? decode)),
  );

  constructor(values: DynamoParameters, deps: RoutingDeps) {
    this.#parameters = values;
    this.#deps = deps;
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const { prefillLoadScale, overlapCredit, conditionalDisagg } = this.#parameters;
    const { promptTokenIds, cachedTokens } = request;
    const { blockSize } = this.#deps;
    const credit = (engineId: string) => overlapCredit * Math.floor(cachedTokens(engineId) / blockSize);
    // Not rounded, as in Dynamo.
    const prefillCost = ({ engineId }: EngineView) => {
      const tokens = this.#underWay.at(engineId).prefillTokens + promptTokenIds.length;
      return prefillLoadScale * Math.max(tokens / blockSize - credit(engineId), 0);
    };
    // As in Dynamo's decode stage: no prefill cost, no sharing of blocks.
    const decodeCost = ({ engineId }: EngineView) => {
      const blocks =
        this.#blocks(this.#underWay.at(engineId).decodeTokens) + this.#blocks(promptTokenIds.length);
      return conditionalDisagg === null ? blocks : Math.max(blocks - credit(engineId), 0);
    };

    const decode = this.#choose(candidates.decode, decodeCost, draw);
    const prefill = this.#choose(candidates.prefill, prefillCost, draw);
    const scored = (side: 'prefill' | 'decode', cost: (engine: EngineView) => number) =>
      scoresOf(
        side,
        candidates[side].map((engine) => ({ engine, score: cost(engine) })),
      );
    const scores = [...scored('prefill', prefillCost), ...scored('decode', decodeCost)];
    const bypass = this.#bypass(request, prefill, decode);
    const why = bypass ?? `blocks: P ${prefillCost(prefill)}, D ${decodeCost(decode)}`;
    return { prefill, decode, ...(bypass !== null && { alone: true }), why, scores };
  }

  observe(event: RoutingEvent): void {
    this.#underWay.observe(event);
  }

  /** Why D prefills on its own; null: P prefills. */
  #bypass(request: RouteRequest, prefill: EngineView, decode: EngineView): string | null {
    const { conditionalDisagg, effectiveIsl, effectiveIslRatio, prefillBusyTokens, decodeBusyUsage } =
      this.#parameters;
    if (conditionalDisagg === null) return null;
    if (decodeBusyUsage !== null && kvUsage(decode) > decodeBusyUsage) return null;
    const isl = request.promptTokenIds.length;
    const lacks = isl - Math.min(isl, request.cachedTokens(decode.engineId));
    const short = isl > 0 && lacks < effectiveIsl && lacks / isl < effectiveIslRatio;
    const waiting = this.#underWay.at(prefill.engineId).prefillTokens;
    const busy = prefillBusyTokens !== null && waiting > prefillBusyTokens;
    if (conditionalDisagg !== 'prefill_load' && short)
      return `D lacks ${lacks} of ${isl} tokens and prefills them itself`;
    if (conditionalDisagg !== 'isl_bounding' && busy)
      return `P has ${waiting} tokens to prefill: D prefills itself`;
    return null;
  }

  /** With a temperature: a draw by softmax over -cost, with costs scaled to 0..1. */
  #choose(
    engines: readonly EngineView[],
    cost: (engine: EngineView) => number,
    draw: () => number,
  ): EngineView {
    const { temperature } = this.#parameters;
    if (temperature === 0) return leastOf(engines, cost, draw)!;
    const least = minOf(engines, cost);
    const span = maxOf(engines, cost) - least || 1;
    return weightedRandom(engines, (engine) => Math.exp(-(cost(engine) - least) / span / temperature), draw);
  }

  #blocks(tokens: number): number {
    return Math.ceil(tokens / this.#deps.blockSize);
  }
}

export const dynamo = definePolicy({
  help: 'P by blocks to prefill minus cached ones, D by active blocks',
  source: "Dynamo's KV router",
  needs: ['load', 'cache'],
  parameters,
  create: (values, deps) => new Dynamo(values, deps),
});
