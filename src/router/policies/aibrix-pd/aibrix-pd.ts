/**
 * AIBrix's routing strategy `pd` (pkg/plugins/gateway/algorithms/pd_disaggregation.go and pd/): of the pairs of P and
 * D in one roleset, the one with the least sum of the two normalised scores. Prompt-length buckets and combined
 * engines are part of the fleet's placement. AIBrix's tracing of transfer agents is not implemented.
 *
 * Kept from AIBrix: one spread is compared with > and the other with >=; the lowest throughput is taken, whether the
 * engine is idle or slow; a prefix weighs ten times as much as load. Different: if the two fast paths choose
 * different rolesets, AIBrix returns an error; here P's choice stands, and D is scored in P's roleset.
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
import { kvUsage, leastOf, maxOf, minOf, type Scored, scoresOf } from '../pick.ts';
import { PrefixTable } from '../prefix-table.ts';
import { UnderWay } from '../under-way.ts';
import { type AibrixPdParameters, aibrixPdSchema, fromAibrixShapes } from './config.ts';
import { type DecodeFacts, decodeFastPath, decodeScores, freePercent } from './decode-scores.ts';
import { mostRequests, type PrefillFacts, prefillScore } from './prefill-scores.ts';

/** Lower bounds of the divisors for P's and D's scores. */
const LEAST_MAX_PREFILL = 1;
const LEAST_MAX_DECODE = 0.01;

class AibrixPd implements RoutingPolicy {
  readonly #parameters: AibrixPdParameters;
  readonly #deps: RoutingDeps;
  readonly #underWay = new UnderWay();
  readonly #prefixes: PrefixTable;
  readonly #prefillMs = new Map<string, { sum: number; count: number }>();

  constructor(parameters: AibrixPdParameters, deps: RoutingDeps) {
    this.#parameters = parameters;
    this.#deps = deps;
    this.#prefixes = new PrefixTable({
      blockTokens: parameters.prefixCacheBlockSize,
      maxBlocks: parameters.prefixCacheBlockNumber,
      keepMs: parameters.prefixCacheEvictionDurationMins * 60_000,
    });
  }

  route(request: RouteRequest, candidates: Candidates): Routing {
    const draw = this.#deps.draws(request.number);
    const { prefill, decode, rolesetOf: rolesetBy, why: placed } = eligible(candidates);
    const fastP = this.#prefillFastPath(prefill, draw);
    const fastD = decodeFastPath(this.#decodeFacts(decode), this.#parameters, draw);
    const firstP = fastP && prefill.find(({ engineId }) => engineId === fastP.engineId)!;
    const firstD = fastD && decode.find(({ engineId }) => engineId === fastD.engineId)!;
    const apart = firstP && firstD && rolesetBy(firstP) !== rolesetBy(firstD);

    // An engine chosen by a fast path restricts the other side to its roleset before that side is scored.
    const first = firstP ?? firstD;
    const inSameRoleset = (engine: EngineView) => !first || rolesetBy(engine) === rolesetBy(first);
    const p = this.#scorePrefill(request, firstP ? [firstP] : prefill.filter(inSameRoleset));
    const d = this.#scoreDecode(firstD && !apart ? [firstD] : decode.filter(inSameRoleset));
    const maxP = Math.max(
      LEAST_MAX_PREFILL,
      maxOf(p, ({ score }) => score),
    );
    const maxD = Math.max(
      LEAST_MAX_DECODE,
      maxOf(d, ({ score }) => score),
    );
    const leastD = leastByRoleset(d, rolesetBy, draw);
    const pairs = [...leastByRoleset(p, rolesetBy, draw)].flatMap(([roleset, forP]) => {
      const forD = leastD.get(roleset);
      return forD ? [{ forP, forD, sum: forP.score / maxP + forD.score / maxD }] : [];
    });
    const best = leastOf(pairs, ({ sum }) => sum, draw)!;
    const fast = [
      fastP?.why,
      apart ? `${fastD?.why}, in another roleset: AIBrix returns an error` : fastD?.why,
    ];
    const why = [
      placed,
      ...fast,
      `P ${best.forP.score.toFixed(2)}/${maxP.toFixed(2)} + D ${best.forD.score.toFixed(2)}/${maxD.toFixed(2)}`,
    ];
    return {
      prefill: best.forP.engine,
      decode: best.forD.engine,
      why: why.filter((part) => part).join('; '),
      scores: [...scoresOf('prefill', p), ...scoresOf('decode', d)],
    };
  }

  observe(event: RoutingEvent): void {
    this.#underWay.observe(event);
    if (event.kind === 'planned' && event.prefill !== null && this.#parameters.prefixIndex === 'own') {
      this.#prefixes.credit(event.request.promptTokenIds, event.prefill, event.request.nowMs);
    } else if (event.kind === 'prefilled') {
      const { sum, count } = this.#prefillMs.get(event.engineId) ?? { sum: 0, count: 0 };
      this.#prefillMs.set(event.engineId, { sum: sum + event.ms, count: count + 1 });
    }
  }

  forget(engineId: string): void {
    this.#prefillMs.delete(engineId);
  }

  #prefillFastPath(
    engines: readonly EngineView[],
    draw: () => number,
  ): { engineId: string; why: string } | null {
    const requests = ({ engineId }: EngineView) => this.#underWay.at(engineId).prefills;
    const spread = maxOf(engines, requests) - minOf(engines, requests);
    if (spread <= this.#parameters.prefillLoadImbalanceMinSpread) return null;
    return { engineId: leastOf(engines, requests, draw)!.engineId, why: `P's requests differ by ${spread}` };
  }

  #scorePrefill(request: RouteRequest, engines: readonly EngineView[]): Scored[] {
    const { prefillScorePolicy: policy, prefixCacheStandardDeviationFactor: factor } = this.#parameters;
    const facts = this.#prefillFacts(request, engines);
    const tooMany = mostRequests(
      facts.map(({ requests }) => requests),
      factor,
    );
    const most = Math.max(
      1,
      maxOf(facts, ({ requests }) => requests),
    );
    return engines.flatMap((engine, i) => {
      if (facts[i]!.requests > tooMany) return [];
      return [{ engine, score: prefillScore(policy, facts[i]!, most, request.promptTokenIds.length) }];
    });
  }

  #prefillFacts(request: RouteRequest, engines: readonly EngineView[]): PrefillFacts[] {
    const { promptTokenIds, nowMs, cachedTokens } = request;
    const { prefixIndex, prefillScorePolicy } = this.#parameters;
    const own = prefixIndex === 'own' && prefillScorePolicy !== 'least_request';
    const matched = own ? this.#prefixes.match(promptTokenIds, nowMs) : null;
    const blocks = Math.max(1, this.#prefixes.blocksOf(promptTokenIds));
    const share = (engineId: string) =>
      matched
        ? (matched.get(engineId) ?? 0) / blocks
        : cachedTokens(engineId) / Math.max(1, promptTokenIds.length);
    return engines.map(({ engineId }) => {
      const measured = this.#prefillMs.get(engineId);
      return {
        engineId,
        requests: this.#underWay.at(engineId).prefills,
        matchPercent: Math.floor(100 * share(engineId)),
        meanPrefillMs: measured ? measured.sum / measured.count : null,
      };
    });
  }

  #scoreDecode(engines: readonly EngineView[]): Scored[] {
    const { decodeScorePolicy } = this.#parameters;
    const facts = this.#decodeFacts(engines);
    const scores = decodeScores(decodeScorePolicy, facts, this.#parameters);
    return engines.map((engine, i) => ({ engine, score: scores[i]! }));
  }

  #decodeFacts(engines: readonly EngineView[]): DecodeFacts[] {
    return engines.map((engine) => {
      const { engineId, signals } = engine;
      const pending = this.#underWay.at(engineId).pendingDecodes;
      return {
        engineId,
        running: (signals?.running ?? 0) + pending,
        pending,
        hasMetrics: signals !== null,
        throughput: signals?.generationTokensPerSecond ?? 0,
        drainRate: signals?.endedPerSecond ?? 0,
        freePercent: freePercent(kvUsage(engine)),
      };
    });
  }
}

const rolesetOf = ({ roleset }: EngineView): string => roleset ?? '';

interface Eligible extends Candidates {
  rolesetOf: (engine: EngineView) => string;
  why: string | null;
}

/** Rolesets with both a P and a D. If there is none, any P goes with any D, so that the request can be served. */
function eligible({ prefill, decode }: Candidates): Eligible {
  const withD = new Set(decode.map(rolesetOf));
  const p = prefill.filter((engine) => withD.has(rolesetOf(engine)));
  if (p.length === 0) return { prefill, decode, rolesetOf: () => '', why: 'no roleset has both a P and a D' };
  const withP = new Set(p.map(rolesetOf));
  return {
    prefill: p,
    decode: decode.filter((engine) => withP.has(rolesetOf(engine))),
    rolesetOf,
    why: null,
  };
}

function leastByRoleset(
  scored: readonly Scored[],
  rolesetBy: Eligible['rolesetOf'],
  draw: () => number,
): Map<string, Scored> {
  const grouped = new Map<string, Scored[]>();
  for (const each of scored) {
    const roleset = rolesetBy(each.engine);
    const group = grouped.get(roleset);
    if (group) group.push(each);
    else grouped.set(roleset, [each]);
  }
  return new Map(
    [...grouped].map(([roleset, group]) => [roleset, leastOf(group, ({ score }) => score, draw)!]),
  );
}

export const aibrixPd = definePolicy({
  help: "P and D of one roleset, by P's prefix and requests and D's load, with AIBrix's quirks",
  source: "AIBrix's pd router",
  needs: ['load', 'cache'],
  parameters: aibrixPdSchema,
  translate: fromAibrixShapes,
  create: (parameters, deps) => new AibrixPd(parameters, deps),
});
