/**
 * Whether P pulls what D offers beyond P's own hit, or computes it: vLLM's fixed threshold, predicted costs
 * (cost-aware.ts), or what one request asks for. Decides only; tokens, blocks and holders are checked before.
 */
import type { PullPolicyName } from '../../config/kv-transfer.ts';

export interface PullQuestion {
  /** Tokens that the pull would bring, beyond localHitTokens. */
  count: number;
  localHitTokens: number;
  promptTokens: number;
  /** Requests that the holder served when this one set out; null when nobody said. */
  holderRequests: number | null;
}

export interface PullPolicy {
  /** Why it is computed instead, for the prompt's account; null: it is pulled. */
  refuse(question: PullQuestion): string | null;
}

/** vLLM's rule: kv_recompute_threshold tokens or more are pulled. */
export const thresholdPolicy = (threshold: number): PullPolicy => ({
  refuse: ({ count }) => (count < threshold ? `${count} < threshold ${threshold}` : null),
});

const alwaysPolicy: PullPolicy = { refuse: () => null };
const neverPolicy: PullPolicy = { refuse: () => 'the request asks for computing it' };

/** Nothing but predicted costs decides, where there are any. */
export const byCost = (asked: PullPolicyName | null | undefined): boolean =>
  (asked ?? 'cost-aware') === 'cost-aware';

/** `asked`: what the request wants; without a word, costs decide where they are known, else the threshold. */
export function choosePolicy(
  asked: PullPolicyName | null,
  threshold: number,
  costAware: PullPolicy | null,
): PullPolicy {
  switch (asked) {
    case 'always':
      return alwaysPolicy;
    case 'never':
      return neverPolicy;
    case 'threshold':
      return thresholdPolicy(threshold);
    case 'cost-aware':
    case null:
      return costAware ?? thresholdPolicy(threshold);
  }
}
