/** `--pull-policy` and `--cost-profile`: checked early, applied once engines run. */
import { type CostProfile, parseCostProfile, refuseIdleProfile } from '../../config/cost-profile.ts';
import { optionName, type RunConfig } from '../../config/run.ts';
import type { Cluster } from '../../fleet/types.ts';
import type { CommandContext } from '../deps.ts';
import type { Progress } from '../output/progress.ts';
import { createTimeLeft } from '../output/time-left.ts';

export interface PullPolicySetting {
  /** Resolves with the active profile, if any. Throws ConfigError if the given one was measured with another setup. */
  apply(cluster: Cluster, progress: Progress): Promise<CostProfile | null>;
}

/** Throws ConfigError for a file that is not a profile, or a profile that would not be used. */
export async function preparePullPolicy(
  { pullPolicy, costProfile, seed }: RunConfig,
  { deps, signal }: CommandContext,
): Promise<PullPolicySetting> {
  refuseIdleProfile({ pullPolicy, costProfile }, optionName);
  if (pullPolicy === 'threshold') return { apply: async () => null };
  const profile =
    costProfile === null
      ? null
      : { value: parseCostProfile(await deps.readTextFile(costProfile), costProfile), source: costProfile };
  return {
    async apply(cluster, progress) {
      const { calibrationTurns, startCostAware } = await import('../../lab/calibrate.ts');
      const total = calibrationTurns(cluster, { quick: true });
      const left = createTimeLeft(total, deps.now);
      if (!profile) {
        progress.line('cost-aware without --cost-profile: running a quick calibration first');
        progress.begin('calibrate', total);
      }
      const inForce = await startCostAware(cluster, {
        profile,
        version: deps.version,
        date: deps.today(),
        seed,
        signal,
        onProgress: (done, _, what) => progress.update(done, `${what}, ${left.after(done)}`),
      }).finally(() => progress.end());
      return inForce;
    },
  };
}
