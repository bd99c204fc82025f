/**
 * Chooses, by predicted cost, where a prompt's blocks come from: the store, a peer, both, or neither (they are computed). The
 * cost-aware policy estimates pulls and prefill; the cost of store loads is learned here.
 *
 * The store and a peer are read concurrently, and the prompt continues when both are done. Over modelled links, each source
 * has its own link, so the slower one counts. Otherwise both move bytes through this machine's memory: their fixed waits
 * overlap, but their transfers add up.
 */
import type { CostProfile } from '../../config/cost-profile.ts';
import type { ConnectorRequest } from '../../engine/kv-connector.ts';
import type { CostAwarePolicy } from './cost-aware.ts';
import type { KvBytes } from './cost-model.ts';
import type { PullQuestion } from './pull-policy.ts';
import { RecursiveLeastSquares } from './recursive-least-squares.ts';

export interface SourceCostsDeps {
  load: NonNullable<CostProfile['store']>['load'];
  pulls: Pick<CostAwarePolicy, 'predict' | 'partsOf'>;
  /** There is a modelled link between engines. */
  linked: boolean;
  blockSize: number;
  kvBytes: KvBytes;
}

/** Tokens to take from the store, then from a peer. */
export interface SourcePlan {
  /** Tokens from the store, directly after the local hit. */
  stored: number;
  /** Tokens from the peer, after those. */
  pulled: number;
}

/**
 * Exploration budget, as a share of the predicted prompt time: it may be lost by trying a source that looks expensive. A
 * source that was slow while the machine was busy may be fast now, and costs of unused sources are never updated.
 */
const ASKING_AGAIN = 0.05;
/** Number of prompts without a source after which it is worth trying again. */
const STALE = 10;

type Source = 'store' | 'peer';

export class SourceCosts {
  readonly #deps: SourceCostsDeps;
  readonly #load: RecursiveLeastSquares;
  /** Unfinished loads by request: their bytes, and the features they were predicted from. */
  readonly #underWay = new Map<string, { bytes: number; features: readonly number[] }>();
  /** The unspent exploration budget, ms. */
  #allowedMs = 0;
  /** Prompts since each source was last used, counting only prompts for which it was available. */
  readonly #unused: Record<Source, number> = { store: 0, peer: 0 };

  constructor(deps: SourceCostsDeps) {
    this.#deps = deps;
    const { fixed_ms, ms_per_byte } = deps.load;
    this.#load = new RecursiveLeastSquares(
      [fixed_ms, ms_per_byte],
      [0.5 * fixed_ms + 1, 0.3 * ms_per_byte + 1e-9],
    );
  }

  /** A load of this many tokens starts. */
  started(requestId: string, tokens: number): void {
    this.#underWay.set(requestId, { bytes: this.#bytes(tokens), features: this.#features(tokens) });
  }

  /** The load ended after `wallMs` ms; null if it failed, and nothing is learned. */
  ended(requestId: string, wallMs: number | null): void {
    const load = this.#underWay.get(requestId);
    this.#underWay.delete(requestId);
    if (load && wallMs !== null) this.#load.observe(load.features, wallMs);
  }

  /** Predicted time to load this many tokens from the store alone, ms. */
  loadMs(tokens: number): number {
    return tokens === 0 ? 0 : this.#load.predict(this.#features(tokens));
  }

  /** Time that the plan saves compared with computing all its tokens, ms. Negative if it costs more. */
  savingMs(plan: SourcePlan, rest: Omit<PullQuestion, 'count'>): number {
    const count = plan.stored + plan.pulled;
    return this.#deps.pulls.predict({ ...rest, count }).recomputeMs - this.#movingMs(plan, rest);
  }

  /**
   * Chooses the plan that saves most (the first, if equal); null if none saves anything. Occasionally chooses a worse plan
   * whose source has not been used for STALE prompts, within the exploration budget. Call `settle` once the prompt follows the
   * choice. Until then, choose() has no effect and may be repeated.
   */
  choose<Plan extends SourcePlan>(
    plans: readonly Plan[],
    rest: Omit<PullQuestion, 'count'>,
  ): { plan: Plan | null; settle: () => void } {
    const able = plans
      .filter(({ stored, pulled }) => stored + pulled > 0)
      .map((plan) => ({ plan, saving: this.savingMs(plan, rest) }));
    let best: (typeof able)[number] | null = null;
    for (const one of able) if (one.saving > (best?.saving ?? 0)) best = one;
    const saving = best?.saving ?? 0;
    const again = able.find(
      (one) =>
        one !== best &&
        saving - one.saving <= this.#allowedMs &&
        sourcesOf(one.plan).some((source) => this.#unused[source] >= STALE),
    );
    const plan = (again ?? best)?.plan ?? null;
    const settle = (): void => {
      this.#allowedMs += ASKING_AGAIN * Math.max(0, this.#promptMs(rest) - saving);
      if (again) this.#allowedMs -= saving - again.saving;
      this.#count(able, plan);
    };
    return { plan, settle };
  }

  /** Time saved by having one block of the prompt, ms: the cost of computing it, or of an offered pull if cheaper. */
  worthOfBlockMs({
    promptTokenIds: { length: promptTokens },
    kvTransferParams: params,
  }: Pick<ConnectorRequest, 'promptTokenIds' | 'kvTransferParams'>): number {
    const holderRequests = params?.remote_num_requests ?? null;
    const rest = { localHitTokens: 0, promptTokens, holderRequests };
    const each = (ms: number, tokens: number): number => (ms * this.#deps.blockSize) / Math.max(1, tokens);
    const computing = each(this.#promptMs(rest), promptTokens);
    const offered = Math.min(promptTokens, params?.remote_num_tokens ?? 0);
    if (offered === 0) return computing;
    return Math.min(computing, each(this.#deps.pulls.predict({ ...rest, count: offered }).pullMs, offered));
  }

  #count(able: readonly { plan: SourcePlan }[], taken: SourcePlan | null): void {
    const used = new Set(taken ? sourcesOf(taken) : []);
    for (const source of new Set(able.flatMap(({ plan }) => sourcesOf(plan))))
      this.#unused[source] = used.has(source) ? 0 : this.#unused[source] + 1;
  }

  /** Predicted time to compute everything beyond the local hit, ms. */
  #promptMs(rest: Omit<PullQuestion, 'count'>): number {
    const count = Math.max(1, rest.promptTokens - rest.localHitTokens);
    return this.#deps.pulls.predict({ ...rest, count }).recomputeMs;
  }

  #movingMs({ stored, pulled }: SourcePlan, rest: Omit<PullQuestion, 'count'>): number {
    if (stored + pulled === 0) return 0;
    const question = { ...rest, count: pulled, localHitTokens: rest.localHitTokens + stored };
    const { overheadMs, ...pull } = this.#deps.pulls.partsOf(question);
    if (stored === 0) return overheadMs + pull.fixedMs + pull.movingMs;
    const [, bytes] = this.#features(stored) as [number, number];
    const load = { fixedMs: this.#load.predict([1, 0]), movingMs: this.#load.predict([0, bytes]) };
    if (pulled === 0) return overheadMs + load.fixedMs + load.movingMs;
    const together = this.#deps.linked
      ? Math.max(load.fixedMs + load.movingMs, pull.fixedMs + pull.movingMs)
      : Math.max(load.fixedMs, pull.fixedMs) + load.movingMs + pull.movingMs;
    return overheadMs + together;
  }

  #bytes(tokens: number): number {
    return this.#deps.kvBytes(0, tokens);
  }

  /** Unfinished loads are ahead of this one on the same link. */
  #features(tokens: number): readonly number[] {
    let ahead = 0;
    for (const { bytes } of this.#underWay.values()) ahead += bytes;
    return [1, this.#bytes(tokens) + ahead];
  }
}

const sourcesOf = ({ stored, pulled }: SourcePlan): Source[] => [
  ...(stored > 0 ? (['store'] as const) : []),
  ...(pulled > 0 ? (['peer'] as const) : []),
];
