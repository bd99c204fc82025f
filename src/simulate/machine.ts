/** What simulated engines compute on: one machine that all of them share, whose steps do not always take the same time. */
import { STREAM } from '../seeded.ts';
import { Random } from '../workload/random.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulationCosts, SpeedOf, StepShape, Stretch, Work } from './costs/types.ts';
import { SharedResource } from './resources.ts';

/** Of a step that computes: what it is at, and the tokens before each of its rows, on average. */
export interface Computing {
  work: Work;
  context: number;
}

/** On which each is as fast as it is beside those that compute at the moment. */
export const machineOf = (clock: VirtualClock, speeds: SpeedOf): SharedResource<Computing> =>
  new SharedResource(
    clock,
    (_all, { work, context }, count) =>
      speeds(work, { prefill: count('prefill'), decode: count('decode') }, context),
    ({ work }) => work,
  );

/** For each engine, how many times its time a step takes, by the seed: stretch after stretch, each to its end. */
export function drawnTimes(
  varies: SimulationCosts['varies'],
  seed: number,
): () => (shape: StepShape) => number {
  if (!varies) return () => () => 1;
  const random = new Random(seed, STREAM.steps);
  return () => {
    const left = new Map<readonly Stretch[], Iterator<number>>();
    return (shape) => {
      const stretches = varies(shape);
      const next = left.get(stretches)?.next();
      if (next && !next.done) return next.value;
      const [first, ...rest] = stretches[random.int(0, stretches.length - 1)]!;
      left.set(stretches, rest.values());
      return first!;
    };
  };
}
