/**
 * Which sources a prompt's blocks are taken from, by what they cost: the store, a peer, both one after the other, or none of
 * them, and then they are computed. What pulls and prefill cost the cost-aware policy knows; what loads cost is learned here.
 */
import type { CostProfile } from '../../config/cost-profile.ts';
import type { CostAwarePolicy } from './cost-aware.ts';
import type { PullQuestion } from './pull-policy.ts';
import { RecursiveLeastSquares } from './recursive-least-squares.ts';

export interface SourceCostsDeps {
  load: NonNullable<CostProfile['store']>['load'];
  pulls: Pick<CostAwarePolicy, 'predict'>;
  blockSize: number;
  /** Of a block, all groups. */
  blockBytes: number;
}

/** Tokens that the store and a peer can give, one after the other. */
export interface SourcePlan {
  /** From the local hit on. */
  stored: number;
  /** After these. */
  pulled: number;
}

export class SourceCosts {
  readonly #deps: SourceCostsDeps;
  readonly #load: RecursiveLeastSquares;

  constructor(deps: SourceCostsDeps) {
    this.#deps = deps;
    const { fixed_ms, ms_per_byte } = deps.load;
    this.#load = new RecursiveLeastSquares(
      [fixed_ms, ms_per_byte],
      [0.5 * fixed_ms + 1, 0.3 * ms_per_byte + 1e-9],
    );
  }

  /** A load ended well. */
  loaded(bytes: number, wallMs: number): void {
    this.#load.observe([1, bytes], wallMs);
  }

  /** Of so many tokens, milliseconds. */
  loadMs(tokens: number): number {
    const { blockSize, blockBytes } = this.#deps;
    return tokens === 0 ? 0 : this.#load.predict([1, Math.ceil(tokens / blockSize) * blockBytes]);
  }

  /** What the plan spares against computing it all, milliseconds; below 0 it costs more. */
  savingMs({ stored, pulled }: SourcePlan, rest: Omit<PullQuestion, 'count'>): number {
    const { pulls } = this.#deps;
    const before = { ...rest, count: stored };
    const after = { ...rest, count: pulled, localHitTokens: rest.localHitTokens + stored };
    const load = stored > 0 ? pulls.predict(before).recomputeMs - this.loadMs(stored) : 0;
    if (pulled === 0) return load;
    const { recomputeMs, pullMs } = pulls.predict(after);
    return load + recomputeMs - pullMs;
  }

  /** The one that spares most; null: none spares anything. The first of equal ones. */
  choose<Plan extends SourcePlan>(plans: readonly Plan[], rest: Omit<PullQuestion, 'count'>): Plan | null {
    let best: Plan | null = null;
    let most = 0;
    for (const plan of plans) {
      const saving = this.savingMs(plan, rest);
      if (saving > most) [best, most] = [plan, saving];
    }
    return best;
  }
}
