/** Settings of the autoscalers of watched fleets, simulated or real. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { AutoscaleChoice } from '../../router/autoscale/registry.ts';

/** Targets at which fleets of this size change. Those of the autoscalers' sources are for larger fleets. */
const AUTOSCALED = {
  prefill: { metric: 'waiting', target: 2 },
  decode: { metric: 'kv', target: 60 },
} as const;

/** `most`: most engines of each role. */
export function liveAutoscaler(name: AutoscalerName, most: number): AutoscaleChoice {
  const bounds = { min: 1, max: most };
  return { name, parameters: AUTOSCALED, intervalMs: null, bounds: { prefill: bounds, decode: bounds } };
}
