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

type OnMachine = Computing | { work: 'interruption' };

/** Its steps are as fast as they are beside those that compute at the moment. */
export class Machine {
  readonly #shared: SharedResource<OnMachine>;

  constructor(clock: VirtualClock, speeds: SpeedOf) {
    this.#shared = new SharedResource<OnMachine>(
      clock,
      (_all, on, count) => {
        if (on.work === 'interruption') return 1 / count('interruption');
        if (count('interruption') > 0) return 0;
        return speeds(on.work, { prefill: count('prefill'), decode: count('decode') }, on.context);
      },
      ({ work }) => work,
    );
  }

  /** Any engine computes. */
  get computing(): boolean {
    return this.#shared.count('prefill') + this.#shared.count('decode') > 0;
  }

  /** `ms`: what the step takes alone. */
  step(ms: number, whenDone: () => void, computing: Computing): { cancel(): void } {
    return this.#shared.begin(ms, whenDone, computing);
  }

  /** Steps stand still for so long; several interruptions take as long as all of them. */
  interrupt(ms: number): void {
    if (ms > 0) this.#shared.begin(ms, () => {}, { work: 'interruption' });
  }
}

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
