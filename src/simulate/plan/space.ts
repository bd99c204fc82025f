/** What a search may choose from, and what it has found. */
import type { PlacementMode } from '../../config/fleet-schema.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import { type Candidate, enginesOf, groupsOf, keyOf, type Policy, type Shape } from './candidate.ts';
import { differenceInterval } from './confidence.ts';
import { byGoodness, type Round } from './halving.ts';
import { type Outcome, type Slo, type Trial, WARM_UP_SHARE } from './outcome.ts';
import type { Trials } from './trial.ts';

/** The choices, at least one of each. A search begins with the first of each. */
export interface Space {
  routings: readonly RoutingChoice[];
  modes: readonly Mode[];
  /** Tokens. */
  thresholds: readonly number[];
  placements: readonly PlacementMode[];
  /** Bytes of the store; null: without one. */
  stores: readonly (number | null)[];
  /** P and D together. */
  maxEngines: number;
}

export interface Search {
  trials: Trials;
  space: Space;
  /** Requests of each round, rising. */
  samples: readonly number[];
  /** Most requests of a simulation, those of its warm-up included. */
  mostRequests: number;
  onRound(round: Round): void;
}

const IDLE_SHARE = 1 / 50;

/** The given outcome's fleet with almost no load: no number of engines can do better. */
export const idleOf = ({ trials, samples }: Search, { candidate, perSecond }: Outcome): Promise<Outcome> =>
  trials.run({ candidate, perSecond: perSecond * IDLE_SHARE, sample: roughly(samples) });

/** Sample size that is enough to estimate how large a fleet must be. */
export const roughly = (samples: readonly number[]): number => samples[Math.min(1, samples.length - 1)]!;

export const firstPolicy = ({ routings, modes, thresholds, placements, stores }: Space): Policy => ({
  routing: routings[0]!,
  mode: modes[0]!,
  threshold: thresholds[0]!,
  placement: placements[0]!,
  storeBytes: stores[0]!,
});

/** The candidate itself, then its variants in what is pulled back or stored and how turns are placed. */
export function pullPolicies(one: Candidate, { modes, thresholds, placements, stores }: Space): Candidate[] {
  const others = modes.flatMap((mode) =>
    (mode === 'bidirectional' ? thresholds : thresholds.slice(0, 1)).flatMap((threshold) =>
      placements.flatMap((placement) =>
        stores.map((storeBytes) => ({ ...one, mode, threshold, placement, storeBytes })),
      ),
    ),
  );
  // Replica placement with one roleset is the same as pooled.
  return [one, ...others.filter((other) => other.placement === 'pooled' || groupsOf(other) > 1)];
}

/**
 * The best of many was lucky too, and a queue near its limit hardly changes within the time by which candidates are
 * compared. What is answered is therefore simulated with this many times as many requests.
 */
export const CHECK_TIMES = 8;

/** A longer simulation of an outcome's fleet, after as long a warm-up; the same one if the load has no more requests. */
export function checkOf(
  { candidate, perSecond, sample, withWarmUp }: Outcome,
  { mostRequests }: Pick<Search, 'mostRequests'>,
): Trial {
  const before = withWarmUp - sample;
  const longer = Math.min(CHECK_TIMES * sample, mostRequests - before);
  if (longer <= sample) return { candidate, perSecond, sample };
  // A fifth of the time is a warm-up anyway.
  const warmUps = before > WARM_UP_SHARE * longer ? before / sample : 0;
  return { candidate, perSecond, sample: longer, warmUps };
}

export const policyOf = ({ routing, mode, threshold, placement, storeBytes }: Candidate): Policy => ({
  ...{ routing, mode, threshold, placement, storeBytes },
});

export const eachOf = (shapes: readonly Shape[], policies: readonly Policy[]): Candidate[] =>
  shapes.flatMap((shape) => policies.map((policy) => ({ ...shape, ...policy })));

/** Outcomes at full length, by number of engines, and the longer ones of those that were checked. */
export class Front {
  readonly #byEngines = new Map<number, Map<string, Outcome>>();
  readonly #checked = new Map<string, Outcome>();
  readonly #slo: Slo;
  #chosen: Outcome | null = null;

  constructor(slo: Slo) {
    this.#slo = slo;
  }

  add(outcomes: readonly Outcome[]): void {
    for (const outcome of outcomes) {
      const engines = enginesOf(outcome.candidate);
      const alike = this.#byEngines.get(engines) ?? new Map<string, Outcome>();
      this.#byEngines.set(engines, alike.set(keyOf(outcome.candidate), outcome));
    }
  }

  /** Lists this outcome for its number of engines, though another may be better. */
  choose(outcome: Outcome): void {
    this.add([outcome]);
    this.#chosen = outcome;
  }

  checked(outcomes: readonly Outcome[]): void {
    for (const outcome of outcomes) this.#checked.set(keyOf(outcome.candidate), outcome);
  }

  /** The best fleet with this many engines, as it was simulated longest; null: none was tried. */
  best(engines: number): Outcome | null {
    const [first] = this.ranked(engines);
    return first ? this.#longest(first) : null;
  }

  readonly #longest = (outcome: Outcome): Outcome => this.#checked.get(keyOf(outcome.candidate)) ?? outcome;

  /** Outcomes with this many engines, the best first; those that were checked rank by what they showed before. */
  ranked(engines: number): Outcome[] {
    const alike = this.#byEngines.get(engines);
    return alike ? [...alike.values()].toSorted((a, b) => byGoodness(a, b, this.#slo)) : [];
  }

  /**
   * The chosen or best outcome of each number of engines, unless fewer engines beat it under the same arrivals. Fewest
   * engines first.
   */
  get rows(): Outcome[] {
    const chosen = this.#chosen;
    const engines = [...this.#byEngines.keys()].toSorted((a, b) => a - b);
    const best = engines.map((n) =>
      chosen && n === enginesOf(chosen.candidate) ? chosen : this.ranked(n)[0]!,
    );
    return best
      .filter((row, i) => !best.slice(0, i).some((smaller) => beats(smaller, row)))
      .map(this.#longest);
  }
}

/**
 * Whether the smaller fleet is as good in every respect: no fewer requests keep the SLO, and no quantile of TTFT or
 * TPOT is longer.
 */
function beats(smaller: Outcome, larger: Outcome): boolean {
  const quicker = (of: 'ttftMs' | 'tpotMs') =>
    (['p50', 'p90'] as const).every((q) => (smaller[of]?.[q] ?? Infinity) <= (larger[of]?.[q] ?? Infinity));
  const keeps = (smaller.met || !larger.met) && smaller.share >= larger.share;
  return keeps && quicker('ttftMs') && quicker('tpotMs');
}

/**
 * Whether the shares of the two cannot be distinguished. After warm-ups of different lengths other arrivals count, so
 * these are not compared in pairs.
 */
export function indistinguishable(one: Outcome, other: Outcome): boolean {
  const { low, high } = differenceInterval(one.batches, other.batches, one.withWarmUp === other.withWarmUp);
  return low <= 0 && high >= 0;
}
