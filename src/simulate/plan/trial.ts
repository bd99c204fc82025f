/** Simulates a candidate under a load, after a warm-up as long as conversations stay. */

import type { ClusterOptions } from '../../fleet/types.ts';
import { sumOf } from '../../sum.ts';
import { soonestMs } from '../load/trace-load.ts';
import { Collector } from '../results/collector.ts';
import { type SimulationWorld, simulateOnce } from '../run.ts';
import { keyOf, optionsOf } from './candidate.ts';
import type { PlannedLoad } from './load.ts';
import {
  arrivedAsPlanned,
  type CountedRun,
  countRun,
  countsFrom,
  isBrief,
  MOST_BEHIND,
  NEARLY_ALL,
  type Outcome,
  outcomeOf,
  type Slo,
  type Trial,
} from './outcome.ts';

/** What all trials have in common. */
export interface TrialWorld {
  simulation: SimulationWorld;
  base: ClusterOptions;
  load: PlannedLoad;
  /**
   * Requests by which the last candidates are compared. Simulations of as many or more decide, and wait until the fleet
   * has filled; shorter ones only rank candidates.
   */
  longest: number;
  slo: Slo;
}

/** Plain data, which may cross threads. */
export interface TrialRun {
  outcome: Outcome;
  /** Requests that were simulated. */
  requests: number;
}

/** A warm-up is this many times as long as conversations stayed without it, since answers take longer in a full fleet. */
const LONGER_THEN = 1.5;

/** Most warm-ups, each as long as the sample by which candidates are compared; a longer one is cut short. */
export const MOST_WARM_UPS = 7;

/**
 * Simulates a trial with every seed, in this thread.
 * Where conversations stay long, requests arrive at the full rate only once as many conversations are open as arrive
 * while one stays. A fleet that keeps the SLO before that is simulated again, with as many warm-ups as that takes. A
 * fleet that is filling looks like one that falls behind, so it is not judged before its warm-up.
 */
export async function simulateTrial(trial: Trial, world: TrialWorld): Promise<TrialRun> {
  const { load, longest, slo } = world;
  const { sample, perSecond } = trial;
  const isShort = sample < longest;
  const each = Math.min(sample, longest);
  const most = isShort ? 0 : Math.min(MOST_WARM_UPS, Math.floor((load.requests - sample) / each));
  let requests = 0;
  for (let warmUps = Math.min(trial.warmUps ?? 0, most); ; ) {
    const run = await simulateWarm(trial, warmUps, world);
    requests += run.requests;
    const { outcome } = run;
    /** In warm-ups. */
    const stays = (outcome.stayMs * perSecond) / (1000 * each);
    const isUp = isBrief(outcome) || (NEARLY_ALL * stays <= warmUps && arrivedAsPlanned(outcome));
    const isAttained = outcome.share >= slo.attainment;
    if (isShort && !isUp) return { outcome: { ...outcome, met: isAttained }, requests };
    if (!isAttained || (isUp && outcome.verdict === 'STABLE') || warmUps >= most) {
      // Without a limit of TTFT, requests that wait ever longer miss nothing, and where answers stay long the verdict may
      // not tell that from chance.
      const outgrown = !isShort && slo.ttftMs === null && outcome.waitGrowth >= MOST_BEHIND;
      return { outcome: outgrown ? { ...outcome, met: false } : outcome, requests };
    }
    warmUps = Math.min(most, Math.max(2 * warmUps + 1, Math.ceil(LONGER_THEN * stays)));
  }
}

async function simulateWarm(
  trial: Trial,
  warmUps: number,
  { simulation, base, load, slo, longest }: TrialWorld,
): Promise<TrialRun> {
  const before = warmUps * Math.min(trial.sample, longest);
  const withWarmUp = before + trial.sample;
  const warmUpShare = before / withWarmUp;
  const { seed, seeds } = simulation;
  const draws = {
    ...{ seed, seeds, countsFrom: countsFrom({ ...trial, withWarmUp }) },
    evenly: trial.evenly ?? false,
  };
  const sampled = load.sample(withWarmUp, trial.perSecond, draws);
  const plan = { label: '', options: optionsOf(trial.candidate, base), load: sampled };
  const dueMs = sampled.kind === 'trace' ? soonestMs(sampled.turns) : null;
  const dueIn = (fromMs: number, untilMs: number): number =>
    dueMs
      ? sumOf(dueMs, (ms) => Number(ms >= fromMs && ms <= untilMs))
      : (trial.perSecond * (untilMs - fromMs)) / 1000;
  const runs: CountedRun[] = [];
  let requests = 0;
  for (let i = 0; i < seeds; i++) {
    const run = await simulateOnce(plan, simulation, seed + i, new Collector(), false);
    requests += run.collector.arrived;
    runs.push(countRun(run, slo, warmUpShare, dueIn));
  }
  return { outcome: outcomeOf(trial, withWarmUp, runs, slo), requests };
}

export interface TrialsDeps {
  slo: Slo;
  /** At most `atOnce` of these are under way. */
  simulate: (trial: Trial) => Promise<TrialRun>;
  atOnce: number;
  /** Called before each simulation. */
  onTrial(trial: Trial): void;
}

/** Runs each trial once; results do not depend on how many run at once. */
export class Trials {
  /** Requests that were simulated, and simulations that ended. */
  requests = 0;
  count = 0;
  readonly #deps: TrialsDeps;
  readonly #known = new Map<string, Promise<Outcome>>();

  constructor(deps: TrialsDeps) {
    this.#deps = deps;
  }

  /** Simulations begun, those under way included. */
  get begun(): number {
    return this.#known.size;
  }

  get slo(): Slo {
    return this.#deps.slo;
  }

  /** Returns the outcomes in the order of the trials. */
  async runAll(trials: readonly Trial[]): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const waiting = trials.entries();
    const runner = async (): Promise<void> => {
      for (const [place, trial] of waiting) outcomes[place] = await this.run(trial);
    };
    await Promise.all(Array.from({ length: this.#deps.atOnce }, runner));
    return outcomes;
  }

  run(trial: Trial): Promise<Outcome> {
    const { candidate, perSecond, sample, warmUps = 0, evenly = false } = trial;
    const key = [keyOf(candidate), perSecond, sample, warmUps, evenly].join(' ');
    const outcome = this.#known.get(key) ?? this.#simulate(trial);
    this.#known.set(key, outcome);
    return outcome;
  }

  async #simulate(trial: Trial): Promise<Outcome> {
    const { onTrial, simulate } = this.#deps;
    onTrial(trial);
    const { outcome, requests } = await simulate(trial);
    this.requests += requests;
    this.count++;
    return outcome;
  }
}
