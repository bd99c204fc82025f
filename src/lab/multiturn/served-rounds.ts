/** Keeps what the arms served, by round, and returns the part that can be compared. */
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import { countError, runtimeOf, type ServedRound } from './clients.ts';
import type { Arm, ExperimentPlan } from './experiments.ts';
import type { ArmRound, RoundWatcher } from './rounds.ts';

export class ServedRounds implements RoundWatcher {
  readonly #rounds: Map<Arm, ArmRound[]>;
  #underWay: ({ arm: Arm } & Omit<ServedRound, 'runtimeMs'>) | null = null;

  readonly #watcher: RoundWatcher;

  /** `watcher` is told what this is told. */
  constructor(arms: readonly Arm[], watcher: RoundWatcher) {
    this.#rounds = new Map(arms.map((arm) => [arm, []]));
    this.#watcher = watcher;
  }

  armBegins(experiment: ExperimentPlan, arm: Arm, round: number, requests: number): void {
    this.#underWay = { arm, requests: [], errors: new Map() };
    this.#watcher.armBegins(experiment, arm, round, requests);
  }

  requestDone(request: MeasuredRequest): void {
    this.#underWay?.requests.push(request);
    this.#watcher.requestDone(request);
  }

  requestFailed(message: string): void {
    if (this.#underWay) countError(this.#underWay.errors, message);
  }

  armEnds(experiment: ExperimentPlan, arm: Arm, done: ArmRound): void {
    this.#underWay = null;
    this.#rounds.get(arm)!.push(done);
    this.#watcher.armEnds(experiment, arm, done);
  }

  /** Marks the rounds before this one: from it on, fewer conversations are served. */
  cutBefore(round: number): void {
    for (const [arm, rounds] of this.#rounds)
      this.#rounds.set(
        arm,
        rounds.map((each) => (each.round < round ? { ...each, cut: true } : each)),
      );
  }

  /** The rounds that every arm completed. If there is none: the first round as far as it was served. */
  comparable(): Map<Arm, ArmRound[]> {
    const completed = Math.min(...[...this.#rounds.values()].map((rounds) => rounds.length));
    if (completed > 0)
      return new Map([...this.#rounds].map(([arm, rounds]) => [arm, rounds.slice(0, completed)]));
    if (!this.#underWay) return this.#rounds;
    const { arm, requests, errors } = this.#underWay;
    const served = { round: 1, requests, errors, runtimeMs: runtimeOf(requests), counters: null };
    return new Map([...this.#rounds, [arm, [served]]]);
  }
}
