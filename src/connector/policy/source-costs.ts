/**
 * Which sources a prompt's blocks are taken from, by what they cost: the store, a peer, both, or none of them, and then they
 * are computed. What pulls and prefill cost the cost-aware policy knows; what loads cost is learned here.
 *
 * The store and a peer are read at once, and the prompt goes on when both have come. Over a modelled link each comes by its
 * own: the slower one counts. Without one both move their bytes through this machine's memory: they wait together, and move
 * one after the other.
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
  /** A modelled link lies between engines. */
  linked: boolean;
  blockSize: number;
  kvBytes: KvBytes;
}

/** Tokens that the store and a peer can give, one after the other. */
export interface SourcePlan {
  /** From the local hit on. */
  stored: number;
  /** After these. */
  pulled: number;
}

/**
 * Of the time that prompts are predicted to take, so much may go into asking a source again that looks dear: what was dear
 * once, when the machine was busy, is not dear for ever, and what is never read is never learned.
 */
const ASKING_AGAIN = 0.05;
/** Prompts without it after which a source's cost is worth asking for again. */
const STALE = 10;

type Source = 'store' | 'peer';

export class SourceCosts {
  readonly #deps: SourceCostsDeps;
  readonly #load: RecursiveLeastSquares;
  /** Loads under way: what each was predicted from. */
  readonly #underWay = new Map<string, { bytes: number; features: readonly number[] }>();
  /** Milliseconds that may be lost by asking again. */
  #allowedMs = 0;
  /** Prompts since each was last taken, where it could have been. */
  readonly #unused: Record<Source, number> = { store: 0, peer: 0 };

  constructor(deps: SourceCostsDeps) {
    this.#deps = deps;
    const { fixed_ms, ms_per_byte } = deps.load;
    this.#load = new RecursiveLeastSquares(
      [fixed_ms, ms_per_byte],
      [0.5 * fixed_ms + 1, 0.3 * ms_per_byte + 1e-9],
    );
  }

  /** A load of so many tokens begins. */
  started(requestId: string, tokens: number): void {
    this.#underWay.set(requestId, { bytes: this.#bytes(tokens), features: this.#features(tokens) });
  }

  /** It ended after so many milliseconds; null: not well, and nothing is learned. */
  ended(requestId: string, wallMs: number | null): void {
    const load = this.#underWay.get(requestId);
    this.#underWay.delete(requestId);
    if (load && wallMs !== null) this.#load.observe(load.features, wallMs);
  }

  /** Of so many tokens, milliseconds, by itself. */
  loadMs(tokens: number): number {
    return tokens === 0 ? 0 : this.#load.predict(this.#features(tokens));
  }

  /** What the plan spares against computing it all, milliseconds; below 0 it costs more. */
  savingMs(plan: SourcePlan, rest: Omit<PullQuestion, 'count'>): number {
    const count = plan.stored + plan.pulled;
    return this.#deps.pulls.predict({ ...rest, count }).recomputeMs - this.#movingMs(plan, rest);
  }

  /**
   * The one that spares most; null: none spares anything. The first of equal ones. Now and then one that spares less, where
   * its source was not taken for long, and what is lost by it is little against all that was served. `settle` is to be called
   * once the prompt goes that way: until then it may be asked again.
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

  /** What having a block of the prompt spares: computing it, or pulling it where a peer has offered the prompt's beginning. */
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

  /** Of all that is not hit here, computed. */
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

  /** Loads under way come first over the same link. */
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
