/** How fleets that are watched, simulated or real, are scaled by a rule. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';

/** Targets at which fleets of this size change; those of the rules' sources are for larger ones. */
const AUTOSCALED = {
  prefill: { metric: 'waiting', target: 2 },
  decode: { metric: 'kv', target: 60 },
} as const;

/** `most`: engines of each kind. */
export function liveAutoscaler(name: AutoscalerName, most: number): AutoscaleChoice {
  const bounds = { min: 1, max: most };
  return { name, parameters: AUTOSCALED, intervalMs: null, bounds: { prefill: bounds, decode: bounds } };
}
