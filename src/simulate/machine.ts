/** The machine that simulated engines share, and the variation of the times that steps and READs take. */
import { STREAM } from '../seeded.ts';
import { Random } from '../workload/random.ts';
import type { VirtualClock } from './clock.ts';
import type { SimulationCosts, SpeedOf, StepShape, Stretch, Work } from './costs/types.ts';
import { SharedResource } from './resources.ts';

/** The work of a step, and the tokens before each of its rows, on average. */
export interface Computing {
  work: Work;
  context: number;
}

type OnMachine = Computing | { work: 'interruption' };

/** Runs steps at speeds that depend on what else computes at the moment. */
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

  get computing(): boolean {
    return this.#shared.count('prefill') + this.#shared.count('decode') > 0;
  }

  /** Begins a step that takes `ms` alone; calls back when it has ended. */
  step(ms: number, whenDone: () => void, computing: Computing): { cancel(): void } {
    return this.#shared.begin(ms, whenDone, computing);
  }

  /** Halts all steps for `ms`. Several interruptions take as long as their sum. */
  interrupt(ms: number): void {
    if (ms > 0) this.#shared.begin(ms, () => {}, { work: 'interruption' });
  }
}

/**
 * Returns a function that gives each engine its own draws: the factor on a step's time, by the seed. Factors come in
 * stretches, drawn one after the other and each used to its end.
 */
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

/** Returns a function that draws the factor on a READ's time, by the seed. */
export function drawnReads(varies: SimulationCosts['readVaries'], seed: number): () => number {
  if (!varies) return () => 1;
  const random = new Random(seed, STREAM.reads);
  return () => varies[random.int(0, varies.length - 1)]!;
}
