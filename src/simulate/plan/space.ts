/** What a search may choose from, and what it has found. */
import type { PlacementMode } from '../../config/fleet-schema.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import { type Candidate, groupsOf, type Policy, type Shape } from './candidate.ts';
import { differenceInterval } from './confidence.ts';
import type { Round } from './halving.ts';
import { type Outcome, type Trial, WARM_UP_SHARE } from './outcome.ts';
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
  trials.run({ candidate, perSecond: perSecond * IDLE_SHARE, sample: roughly(samples), evenly: true });

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

/**
 * Whether the shares of the two cannot be distinguished. After warm-ups of different lengths other arrivals count, so
 * these are not compared in pairs.
 */
export function indistinguishable(one: Outcome, other: Outcome): boolean {
  const { low, high } = differenceInterval(one.batches, other.batches, one.withWarmUp === other.withWarmUp);
  return low <= 0 && high >= 0;
}
