/**
 * The autoscaler from a user's configuration. A file of its own because the page, whose engines are scaled by hand,
 * does not need it.
 */
import type { RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import { type AutoscaleChoice, autoscalerOf } from '../router/autoscale/registry.ts';
import { fleetOf } from './seats.ts';

/** null: no autoscaler, only explicit requests scale. Throws ConfigError. */
export function autoscaleChoice(config: RunConfig): AutoscaleChoice | null {
  const { autoscale: name, autoscaleConfig, autoscaleInterval } = config;
  if (name === null) return null;
  // As for a change by hand, engines that do both are not scaled.
  const pairs = new Set(
    fleetOf(config)
      .seats.filter(({ combined }) => !combined)
      .map(({ roleset }) => roleset),
  );
  if (pairs.size === 0)
    throw new ConfigError(
      '--autoscale has nothing to scale, because every engine of the fleet does both: give it a roleset with P and D, or leave --autoscale out',
    );
  if (pairs.size > 1)
    throw new ConfigError(
      `--autoscale does not know which of ${pairs.size} rolesets to scale: give a fleet with one roleset with P and D, or leave --autoscale out`,
    );
  const choice = {
    name,
    parameters: autoscaleConfig ?? {},
    intervalMs: autoscaleInterval,
    bounds: {
      prefill: { min: config.minPrefill, max: config.maxPrefill },
      decode: { min: config.minDecode, max: config.maxDecode },
    },
  };
  autoscalerOf(choice);
  return choice;
}
