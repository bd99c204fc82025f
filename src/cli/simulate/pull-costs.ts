/** `--pull-policy cost-aware` in a simulation: the initial profile, from a file or derived from the simulation's costs. */
import { type CostProfile, parseCostProfile, refuseIdleProfile } from '../../config/cost-profile.ts';
import { optionName, type RunConfig } from '../../config/run.ts';
import { cacheGroups } from '../../engine/kv-cache-spec.ts';
import { ConfigError } from '../../errors.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { profileOf } from '../../simulate/costs/profile.ts';
import type { CliDeps } from '../deps.ts';
import type { PlannedSimulation } from './plan.ts';

type Config = Pick<RunConfig, 'pullPolicy' | 'costProfile'>;

/** The plan with a cost profile for pulls. Throws ConfigError for a profile that would not be used or has different blocks. */
export async function withPullCosts(
  { pullPolicy, costProfile }: Config,
  planned: PlannedSimulation,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<PlannedSimulation> {
  refuseIdleProfile({ pullPolicy, costProfile }, optionName);
  if (pullPolicy === 'threshold') return planned;
  const given =
    costProfile === null
      ? null
      : fitting(parseCostProfile(await deps.readTextFile(costProfile), costProfile), costProfile, planned);
  const priced = (options: ClusterOptions): ClusterOptions => {
    const { connector } = options;
    const profile = given ?? fromCosts(planned, options);
    return { ...options, connector: { ...connector, nixl: { ...connector.nixl, costProfile: profile } } };
  };
  return {
    ...planned,
    options: priced(planned.options),
    arms: planned.arms.map((arm) => ({ ...arm, options: priced(arm.options) })),
  };
}

/** For an arm with these options, which decide what its KV cache groups keep. */
function fromCosts({ costs, blockBytes }: PlannedSimulation, options: ClusterOptions): CostProfile {
  const { blockSize, maxNumBatchedTokens, maxNumSeqs } = options;
  const groups = cacheGroups(options);
  return profileOf(costs, { blockSize, blockBytes, groups, maxNumBatchedTokens, maxNumSeqs });
}

/** Checks block size and bytes only; the user must know on which engine the profile was measured. */
function fitting(
  profile: CostProfile,
  source: string,
  { options, blockBytes }: PlannedSimulation,
): CostProfile {
  if (profile.block_size === options.blockSize && profile.block_bytes === blockBytes) return profile;
  throw new ConfigError(
    `${source} was measured with blocks of ${profile.block_size} tokens and ${profile.block_bytes} bytes, and blocks of ${options.blockSize} tokens and ${blockBytes} bytes are simulated: give the --block-size and --model that it was measured with, or leave --cost-profile out`,
  );
}
