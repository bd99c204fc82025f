/** Keeps what the arms served, by round, and returns the part that can be compared. */
import type { MeasuredRequest } from '../../measure/summaries/bench-summary.ts';
import { countError, runtimeOf, type ServedRound } from './clients.ts';
import type { Arm } from './experiments.ts';
import type { ArmRound } from './rounds.ts';

export class ServedRounds {
  readonly #rounds: Map<Arm, ArmRound[]>;
  #underWay: ({ arm: Arm } & Omit<ServedRound, 'runtimeMs'>) | null = null;

  constructor(arms: readonly Arm[]) {
    this.#rounds = new Map(arms.map((arm) => [arm, []]));
  }

  begins(arm: Arm): void {
    this.#underWay = { arm, requests: [], errors: new Map() };
  }

  answered(request: MeasuredRequest): void {
    this.#underWay?.requests.push(request);
  }

  failed(message: string): void {
    if (this.#underWay) countError(this.#underWay.errors, message);
  }

  ended(arm: Arm, done: ArmRound): void {
    this.#underWay = null;
    this.#rounds.get(arm)!.push(done);
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
