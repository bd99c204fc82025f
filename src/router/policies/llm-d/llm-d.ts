/**
 * llm-d's router (llm-d-router, profilehandler/disagg). D is chosen first, by weighted scorers. A decider then says,
 * from what D's cache lacks of the prompt, whether P prefills at all. If so, P is chosen by its own scorers. Tokens
 * are counted; llm-d estimates them as a quarter of the characters.
 */
import type {
  Candidates,
  EngineView,
  RouteRequest,
  Routing,
  RoutingEvent,
  RoutingPolicy,
} from '../../plan.ts';
import { definePolicy, type RoutingDeps } from '../definition.ts';
import { kvUsage, leastOf, type Scored, scoresOf, weightedRandom } from '../pick.ts';
import { PrefixTable } from '../prefix-table.ts';
import { UnderWay } from '../under-way.ts';
import { fromPickerConfig, type LlmDParameters, llmDSchema } from './config.ts';
import { type LlmDScorer, type ScorerFacts, scorerScores } from './scorers.ts';

/** Size of the index of sent prompts: the default of llm-d's approximate prefix plugin. */
const INDEX_BLOCKS = 31_250;

class LlmD implements RoutingPolicy {
  readonly #parameters: LlmDParameters;
  readonly #deps: RoutingDeps;
  readonly #underWay = new UnderWay();
  readonly #sent: PrefixTable;
  readonly #lastColdMs = new Map<string, number>();

  constructor(parameters: LlmDParameters, deps: RoutingDeps) {
    this.#parameters = parameters;
    this.#deps = deps;
    this.#sent = new PrefixTable({
      blockTokens: deps.blockSize,
      maxBlocks: INDEX_BLOCKS,
      keepMs: Number.POSITIVE_INFINITY,
    });
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const forD = this.#score('decode', request, candidates.decode);
    const decode = this.#pick(forD, draw);
    const { disaggregate, why } = this.#decide(request, decode.engine);
    const forP = disaggregate ? this.#score('prefill', request, candidates.prefill) : [];
    const scores = [...scoresOf('decode', forD, 'most'), ...scoresOf('prefill', forP, 'most')];
    if (!disaggregate) {
      return { prefill: candidates.prefill[0]!, decode: decode.engine, alone: true, why, scores };
    }
    const prefill = this.#pick(forP, draw);
    const reason = `D ${decode.score.toFixed(2)}, P ${prefill.score.toFixed(2)}; ${why}`;
    return { prefill: prefill.engine, decode: decode.engine, why: reason, scores };
  }

  observe(event: RoutingEvent): void {
    this.#underWay.observe(event);
    if (event.kind !== 'planned') return;
    const { request, prefill, decode } = event;
    const { promptTokenIds, nowMs, cachedTokens } = request;
    const served = prefill === null ? [decode] : [prefill, decode];
    const believed = this.#sent.match(promptTokenIds, nowMs);
    for (const engineId of served) {
      if (believed.size === 0 && cachedTokens(engineId) === 0) this.#lastColdMs.set(engineId, nowMs);
    }
    for (const engineId of served) this.#sent.credit(promptTokenIds, engineId, nowMs);
  }

  forget(engineId: string): void {
    this.#lastColdMs.delete(engineId);
  }

  #decide(request: RouteRequest, { engineId }: EngineView): { disaggregate: boolean; why: string } {
    const { decider, nonCachedTokens, promptTokens } = this.#parameters;
    if (decider === 'always-disagg-pd-decider') return { disaggregate: true, why: 'always disaggregated' };
    const { blockSize } = this.#deps;
    const prompt = request.promptTokenIds.length;
    if (nonCachedTokens === 0) return { disaggregate: false, why: 'nonCachedTokens 0: never disaggregated' };
    if (prompt < promptTokens)
      return { disaggregate: false, why: `a prompt of ${prompt} < ${promptTokens} tokens` };
    const uncached = prompt - Math.floor(request.cachedTokens(engineId) / blockSize) * blockSize;
    const disaggregate = prompt >= nonCachedTokens && uncached >= nonCachedTokens;
    return {
      disaggregate,
      why: `D lacks ${uncached} ${disaggregate ? '>=' : '<'} ${nonCachedTokens} tokens`,
    };
  }

  #score(side: 'prefill' | 'decode', request: RouteRequest, engines: readonly EngineView[]): Scored[] {
    const scorers = Object.entries(this.#parameters[side]) as [LlmDScorer, number][];
    const { blockSize } = this.#deps;
    const { promptTokenIds, nowMs, held, cachedTokens } = request;
    const believes = scorers.some(([name]) => name === 'prefix-cache-scorer' || name === 'no-hit-lru-scorer');
    const believed = believes ? this.#sent.match(promptTokenIds, nowMs) : null;
    const facts = engines.map((engine): ScorerFacts => {
      const { engineId, signals, inFlight } = engine;
      const sent = this.#underWay.at(engineId);
      return {
        engineId,
        believedBlocks: believed?.get(engineId) ?? 0,
        cachedBlocks: Math.floor(cachedTokens(engineId) / blockSize),
        waiting: signals?.waiting ?? 0,
        kvUsage: kvUsage(engine),
        activeRequests: inFlight,
        activeTokens: side === 'prefill' ? sent.prefillTokens : sent.decodeTokens,
        lastColdMs: this.#lastColdMs.get(engineId) ?? null,
        holdsSession: held?.engineId === engineId,
      };
    });
    const blocks = Math.floor(promptTokenIds.length / blockSize);
    const sums = engines.map(() => 0);
    for (const [scorer, weight] of scorers) {
      for (const [i, score] of scorerScores(scorer, facts, blocks).entries()) sums[i]! += weight * score;
    }
    return engines.map((engine, i) => ({ engine, score: sums[i]! }));
  }

  #pick(scored: readonly Scored[], draw: () => number): Scored {
    return this.#parameters.picker === 'weighted-random-picker'
      ? weightedRandom(scored, ({ score }) => score, draw)
      : leastOf(scored, ({ score }) => -score, draw)!;
  }
}

export const llmD = definePolicy({
  help: 'D first by weighted scorers; P only if D lacks nonCachedTokens or more (0: never)',
  source: "llm-d's router",
  needs: ['load', 'cache'],
  parameters: llmDSchema,
  translate: fromPickerConfig,
  create: (parameters, deps) => new LlmD(parameters, deps),
});
