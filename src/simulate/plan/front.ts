/** What a search for the fewest engines has found, by number of engines. */
import { enginesOf, keyOf } from './candidate.ts';
import { byGoodness } from './halving.ts';
import type { Outcome, Slo } from './outcome.ts';

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
