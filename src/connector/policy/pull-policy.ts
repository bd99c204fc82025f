/**
 * Decides whether P pulls what D offers beyond P's own hit, or computes it: by vLLM's fixed threshold, by predicted costs
 * (cost-aware.ts), or as the request demands. Tokens, blocks and holders are checked by the caller.
 */
import type { PullPolicyName } from '../../config/kv-transfer.ts';

export interface PullQuestion {
  /** Tokens that the pull would bring beyond localHitTokens. */
  count: number;
  localHitTokens: number;
  promptTokens: number;
  /** Requests in flight at the holder when this one was sent (remote_num_requests); null if not known. */
  holderRequests: number | null;
}

export interface PullPolicy {
  /** null to pull; else the reason to compute instead, for the prompt account. */
  refuse(question: PullQuestion): string | null;
}

/** vLLM's rule: pull if there are at least kv_recompute_threshold tokens. */
export const thresholdPolicy = (threshold: number): PullPolicy => ({
  refuse: ({ count }) => (count < threshold ? `${count} < threshold ${threshold}` : null),
});

const alwaysPolicy: PullPolicy = { refuse: () => null };
const neverPolicy: PullPolicy = { refuse: () => 'the request asks for recomputation' };

/** Whether predicted costs decide, if they are known. */
export const byCost = (choice: PullPolicyName | null | undefined): boolean =>
  (choice ?? 'cost-aware') === 'cost-aware';

/** `choice`: the request's choice. If null or 'cost-aware', costs decide if they are known, else the threshold. */
export function choosePolicy(
  choice: PullPolicyName | null,
  threshold: number,
  costAware: PullPolicy | null,
): PullPolicy {
  switch (choice) {
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
