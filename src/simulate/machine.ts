/** What simulated engines compute on: one machine that all of them share, whose steps do not always take the same time. */
import type { EngineRole } from '../router/engine-client.ts';
import { Random } from '../workload/random.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulationCosts, Speeds, StepShape } from './costs/types.ts';
import { SharedResource } from './resources.ts';

/** On which each is as fast as it is beside those that compute at the moment. */
export const machineOf = (clock: VirtualClock, speeds: Speeds): SharedResource<EngineRole> =>
  new SharedResource(clock, (_all, role, count) =>
    speeds(role, { prefill: count('prefill'), decode: count('decode') }),
  );

/** How many times its time a step takes, by the seed. */
export function drawnTimes(varies: SimulationCosts['varies'], seed: number): (shape: StepShape) => number {
  if (!varies) return () => 1;
  const random = new Random(seed ^ 0x51ed270b);
  return ({ prefills }) => {
    const times = prefills > 0 ? varies.prompts : varies.decodes;
    return times[random.int(0, times.length - 1)]!;
  };
}
