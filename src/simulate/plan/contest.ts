/** Compares splits and policies at full length, by number of engines, and checks the best with far more requests. */
import { type Candidate, distinct, enginesOf, type Policy, splitsNear } from './candidate.ts';
import { Front } from './front.ts';
import { halve } from './halving.ts';
import type { Outcome } from './outcome.ts';
import { checkOf, eachOf, policyOf, pullPolicies, type Search } from './space.ts';

/** Policies that are tried on smaller and larger fleets. */
const POLICIES_KEPT = 3;

export class Contest {
  readonly front: Front;
  readonly #search: Search;
  readonly #perSecond: number;
  /** Outcomes with as many engines as the best one has, the best first. */
  #known: Outcome[] = [];

  constructor(search: Search, perSecond: number) {
    this.front = new Front(search.trials.slo);
    this.#search = search;
    this.#perSecond = perSecond;
  }

  get known(): readonly Outcome[] {
    return this.#known;
  }

  get best(): Outcome {
    return this.#known[0]!;
  }

  get engines(): number {
    return enginesOf(this.best.candidate);
  }

  /** Compares the routing policies on this split and its neighbours, then everything else there is to choose. */
  async compareAll(near: Candidate): Promise<void> {
    const { space } = this.#search;
    const routings = space.routings.map((routing) => ({ ...policyOf(near), routing }));
    const splits = splitsNear(near, enginesOf(near), 1);
    this.#known = await this.#compare('routing policies', eachOf(splits, routings));
    const pulls = distinct(pullPolicies(this.best.candidate, space));
    if (pulls.length > 1) this.#known = await this.#compare('mode, store and placement', pulls);
  }

  /** Begins again with a larger fleet, which longer simulations asked for. */
  async beginAgain(larger: Outcome): Promise<void> {
    this.front.add([larger]);
    this.#known = await this.nextTo(enginesOf(larger.candidate), larger.candidate);
  }

  /** Takes one engine fewer as long as some fleet with as few keeps the SLO. */
  async reduce(): Promise<void> {
    while (this.engines > 2) {
      const fewer = await this.nextTo(this.engines - 1);
      if (!fewer[0]!.met) break;
      this.#known = fewer;
    }
  }

  /**
   * Checks the best, takes fewer engines as long as they pass, and more until they do. The result does not keep the SLO
   * if no fleet passes.
   */
  async confirm(): Promise<Outcome> {
    let [checked, fewer] = await this.check(this.best, ...this.#oneFewer());
    while (checked!.met && fewer?.met) {
      this.#known = this.front.ranked(this.engines - 1);
      if (this.engines > 2) await this.nextTo(this.engines - 1);
      [checked, fewer] = await this.check(this.best, ...this.#oneFewer());
    }
    while (!checked!.met && this.engines < this.#search.space.maxEngines) {
      this.#known = await this.nextTo(this.engines + 1);
      [checked] = await this.check(this.best);
    }
    return checked!;
  }

  /** The best fleet with an engine fewer, unless it certainly does not keep the SLO. */
  #oneFewer(): Outcome[] {
    const { attainment } = this.#search.trials.slo;
    return this.front
      .ranked(this.engines - 1)
      .slice(0, 1)
      .filter(({ interval }) => interval.high >= attainment);
  }

  /** Simulates fleets longer. */
  async check(...outcomes: readonly Outcome[]): Promise<Outcome[]> {
    const { trials, onRound } = this.#search;
    const longer = await trials.runAll(outcomes.map((outcome) => checkOf(outcome, this.#search)));
    const kept = longer.filter(({ met }) => met).length;
    onRound({ what: 'checking', sample: longer[0]!.sample, candidates: longer.length, kept });
    this.front.checked(longer);
    return longer;
  }

  /** Compares policies on the splits of so many engines that are nearest to a candidate. */
  nextTo(
    engines: number,
    near: Candidate = this.best.candidate,
    policies: readonly Policy[] = policiesOf(this.#known),
  ): Promise<Outcome[]> {
    return this.#compare(`${engines} engines`, eachOf(splitsNear(near, engines, 1), policies));
  }

  /** Compares candidates; returns all outcomes with as many engines, the best first. */
  async #compare(what: string, candidates: readonly Candidate[]): Promise<Outcome[]> {
    const { trials, samples, onRound } = this.#search;
    this.front.add(await halve(candidates, trials, { what, perSecond: this.#perSecond, samples, onRound }));
    return this.front.ranked(enginesOf(candidates[0]!));
  }
}

/** The distinct policies of the best outcomes. */
function policiesOf(known: readonly Outcome[]): Policy[] {
  const policies = known.map(({ candidate }) => policyOf(candidate));
  return [...new Map(policies.map((policy) => [JSON.stringify(policy), policy])).values()].slice(
    0,
    POLICIES_KEPT,
  );
}
