/** Turns the cost-aware policy on: with a profile that was measured here before, or after a quick calibration. */
import { type CostProfile, checkCostProfile } from '../config/cost-profile.ts';
import type { Cluster } from '../fleet/types.ts';
import { type CalibrationOptions, calibrate, situationOf } from './calibrate.ts';

export interface CostAwareStart extends CalibrationOptions {
  /** null: calibrate first, for some seconds. */
  profile: { value: CostProfile; source: string } | null;
}

/** Resolves with the profile in force. Throws ConfigError when the one given was measured elsewhere. */
export async function startCostAware(cluster: Cluster, start: CostAwareStart): Promise<CostProfile> {
  const { profile, ...options } = start;
  if (profile) checkCostProfile(profile.value, situationOf(cluster), profile.source);
  const costProfile = profile?.value ?? (await calibrate(cluster, { ...options, quick: true }));
  await cluster.configure({ costProfile });
  return costProfile;
}
