/**
 * Compares the pull policies on a mixed workload: the same turns, with short and long reusable suffixes, are served by each
 * policy in alternating rounds from the same state. Reports each policy's regret against the better choice per turn.
 */
import { uniformInt } from 'pure-rand/distribution/uniformInt';
import type { RandomGenerator } from 'pure-rand/types/RandomGenerator';
import type { CostProfile } from '../config/cost-profile.ts';
import type { PullPolicyName } from '../config/kv-transfer.ts';
import type { Cluster } from '../fleet/types.ts';
import { median } from '../measure/statistics.ts';
import { seededGenerator } from '../seeded.ts';
import { sumOf } from '../sum.ts';
import { logGrid, NEW_TOKENS } from './fit-costs.ts';
import { drawTokens, prepareTurn } from './sweep.ts';

const POLICIES: readonly PullPolicyName[] = ['always', 'never', 'threshold', 'cost-aware'];

export interface CheckOptions {
  profile: CostProfile;
  /** Tokens; for the policy 'threshold'. */
  threshold: number;
  turns: number;
  rounds: number;
  seed: number;
  signal?: AbortSignal;
  onProgress?: (done: number, total: number, what: string) => void;
}

export interface PolicyTotal {
  policy: PullPolicyName;
  /** Sum over turns of the median TTFT, milliseconds. */
  totalMs: number;
  /** Smallest and largest sum of a single round, milliseconds. */
  leastMs: number;
  mostMs: number;
  /** Turns pulled, over all rounds. */
  pulls: number;
  /** (total − best) / best, with best the sum of the better choices. */
  regretShare: number;
  /** The same with each of its choices priced at the median of 'always' or 'never': free of the noise of its own runs. */
  choiceRegretShare: number;
}

export interface PolicyCheck {
  turns: readonly {
    contextTokens: number;
    /** By round. */
    ttftMs: Readonly<Record<PullPolicyName, readonly number[]>>;
    pulled: Readonly<Record<PullPolicyName, readonly boolean[]>>;
  }[];
  rounds: number;
  threshold: number;
  /** Sum over turns of the better of the medians of 'always' and 'never', milliseconds. */
  bestMs: number;
  totals: readonly PolicyTotal[];
}

/** Turns that a check serves, warm-up included. */
export const checkTurns = ({ turns, rounds }: Pick<CheckOptions, 'turns' | 'rounds'>): number =>
  turns * (rounds + 1) * POLICIES.length;

/** Leaves the cluster in bidirectional mode with the profile and the threshold, and without prefix caching. */
export async function checkPolicies(cluster: Cluster, options: CheckOptions): Promise<PolicyCheck> {
  const { profile, threshold, rounds, signal } = options;
  const random = seededGenerator(options.seed);
  const ids = drawTokens(cluster, random);
  await cluster.configure({
    mode: 'bidirectional',
    recomputeThreshold: threshold,
    prefixCaching: false,
    costProfile: profile,
  });
  const lengths = shuffled(logGrid(profile.fit.least_tokens, profile.fit.most_tokens, options.turns), random);
  const total = checkTurns(options);
  let done = 0;
  const turns: PolicyCheck['turns'][number][] = [];
  for (const contextTokens of lengths) {
    const ttftMs = byPolicy<number>();
    const pulled = byPolicy<boolean>();
    const turn = await prepareTurn(cluster, {
      history: ids(contextTokens),
      added: ids(NEW_TOKENS),
      keep: 0,
      signal,
    });
    for (let round = -1; round < rounds; round++) {
      for (const policy of rotated(POLICIES, round + 1)) {
        const result = await turn.serve(policy);
        if (round >= 0) {
          ttftMs[policy].push(result.ttftMs);
          pulled[policy].push(result.prompt.pulledTokens > 0);
        }
        options.onProgress?.(++done, total, `${contextTokens} tokens`);
      }
    }
    await turn.end();
    turns.push({ contextTokens, ttftMs, pulled });
  }
  const bestMs = sumOf(turns, ({ ttftMs }) => Math.min(median(ttftMs.always), median(ttftMs.never)));
  const totals = POLICIES.map((policy): PolicyTotal => {
    const totalMs = sumOf(turns, ({ ttftMs }) => median(ttftMs[policy]));
    const byRound = Array.from({ length: rounds }, (_, round) =>
      sumOf(turns, ({ ttftMs }) => ttftMs[policy][round]!),
    );
    const [leastMs, mostMs] = [Math.min(...byRound), Math.max(...byRound)];
    const pulls = sumOf(turns, ({ pulled }) => pulled[policy].filter(Boolean).length);
    const choicesMs = sumOf(turns, ({ ttftMs, pulled }) => {
      const price = (pull: boolean) => median(pull ? ttftMs.always : ttftMs.never);
      return sumOf(pulled[policy], price) / rounds;
    });
    const share = (ms: number): number => (ms - bestMs) / bestMs;
    return {
      policy,
      totalMs,
      leastMs,
      mostMs,
      pulls,
      regretShare: share(totalMs),
      choiceRegretShare: share(choicesMs),
    };
  });
  return { turns, rounds, threshold, bestMs, totals };
}

const byPolicy = <T>(): Record<PullPolicyName, T[]> => ({
  always: [],
  never: [],
  threshold: [],
  'cost-aware': [],
});

const rotated = <T>(list: readonly T[], by: number): T[] => list.map((_, i) => list[(i + by) % list.length]!);

function shuffled(list: readonly number[], random: RandomGenerator): number[] {
  const out = [...list];
  for (let i = out.length - 1; i > 0; i--) {
    const j = uniformInt(random, 0, i);
    [out[i], out[j]] = [out[j]!, out[i]!];
  }
  return out;
}
