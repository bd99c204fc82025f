/** `--pull-policy cost-aware` in a simulation: the profile that it begins with, read or from the simulation's own costs. */
import { type CostProfile, parseCostProfile, refuseIdleProfile } from '../../config/cost-profile.ts';
import type { RunConfig } from '../../config/run.ts';
import { ConfigError } from '../../errors.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { profileOf } from '../../simulate/costs/profile.ts';
import type { CliDeps } from '../deps.ts';
import type { PlannedSimulation } from './plan.ts';

type Config = Pick<RunConfig, 'pullPolicy' | 'costProfile'>;

/** As it was planned, with what decides about pulls. Throws ConfigError for a profile that nothing would use, or of other blocks. */
export async function withPullCosts(
  { pullPolicy, costProfile }: Config,
  planned: PlannedSimulation,
  deps: Pick<CliDeps, 'readTextFile'>,
): Promise<PlannedSimulation> {
  refuseIdleProfile({ pullPolicy, costProfile });
  if (pullPolicy === 'threshold') return planned;
  const profile =
    costProfile === null
      ? fromCosts(planned)
      : fitting(parseCostProfile(await deps.readTextFile(costProfile), costProfile), costProfile, planned);
  const priced = (options: ClusterOptions): ClusterOptions => {
    const { connector } = options;
    return { ...options, connector: { ...connector, nixl: { ...connector.nixl, costProfile: profile } } };
  };
  return {
    ...planned,
    options: priced(planned.options),
    arms: planned.arms.map((arm) => ({ ...arm, options: priced(arm.options) })),
  };
}

function fromCosts({ costs, options, blockBytes }: PlannedSimulation): CostProfile {
  const { blockSize, maxNumBatchedTokens, maxNumSeqs, prefill } = options;
  const poolTokens = (prefill.numBlocks - 1) * blockSize;
  return profileOf(costs, { blockSize, blockBytes, maxNumBatchedTokens, maxNumSeqs, poolTokens });
}

/** Bytes decide: of what engine they were measured is the user's to know. */
function fitting(
  profile: CostProfile,
  source: string,
  { options, blockBytes }: PlannedSimulation,
): CostProfile {
  if (profile.block_size === options.blockSize && profile.block_bytes === blockBytes) return profile;
  throw new ConfigError(
    `${source} was measured with blocks of ${profile.block_size} tokens and ${profile.block_bytes} bytes, and blocks of ${options.blockSize} tokens and ${blockBytes} bytes are simulated: give --block-size and --model as it was measured, or leave --cost-profile out`,
  );
}
