/**
 * Finds the highest rate at which a number of engines keeps an SLO. Candidates race: all at a rate that the first one
 * sustains, those that sustain it at twice that, and so on, until half are left. These race again with twice as many
 * requests. The rates of the last ones are bisected, and that of the best is checked with far more requests.
 */
import { type Candidate, distinct, keyOf, type Shape, splitsNear, splitsOf } from './candidate.ts';
import { byGoodness } from './halving.ts';
import { isSustained, type Outcome, type Slo, type Trial } from './outcome.ts';
import {
  checkOf,
  eachOf,
  firstPolicy,
  idleOf,
  indistinguishable,
  policyOf,
  pullPolicies,
  type Search,
} from './space.ts';
import type { Trials } from './trial.ts';

/** A candidate's highest rate, and how certain it is. */
export interface Goodput {
  /** The outcome at that rate. */
  best: Outcome;
  /** The outcome at the lowest rate that it did not sustain. */
  above: Outcome | null;
  /**
   * The highest tried rate at which the whole interval keeps the SLO, and the lowest at which none of it does; null:
   * there is none.
   */
  surely: number | null;
  surelyNot: number | null;
  /** Outcomes of all rates that were tried at this length, by rising rate. */
  tried: Outcome[];
}

export interface BestGoodput {
  chosen: Goodput | null;
  closest: Outcome | null;
  /** The closest one with almost no load. */
  idle: Outcome | null;
  /** At the chosen rate, other fleets that may keep the SLO too and cannot be distinguished from the chosen one. */
  rivals: Outcome[];
  /** The best of each number of engines, unless fewer sustain as much. Only the chosen fleet was checked. */
  front: Goodput[];
}

const ROUGHLY = 1.15;
const CLOSELY = 1.03;
/** First steps of the rate where it is nearly known. */
const NEARBY = 1.06;
/** Candidates whose rates are bisected at full length. */
const FINALS = 3;
const MOST_DOUBLINGS = 10;
/** Splits into P and D that race, evenly spread. */
const MOST_SPLITS = 9;
/** Smaller fleets on the front. */
const SMALLER = 4;

/** `guess`: requests a second at which the search begins. */
export async function bestGoodput(search: Search, engines: number, guess: number): Promise<BestGoodput> {
  const { space, trials } = search;
  const base = firstPolicy(space);
  // Candidates bisected at full length stay in the running, whatever a short round says.
  const known = new Map<string, Goodput>();
  const compare = async (
    what: string,
    candidates: readonly Candidate[],
    from: number,
    samples = search.samples,
  ): Promise<Goodput> => {
    const racing = await race(what, candidates, { ...search, samples }, from);
    for (const one of racing) known.set(keyOf(one.best.candidate), one);
    return ranked([...known.values()], trials.slo)[0]!;
  };
  // Only at full length: while a fleet fills, short simulations show what P lacks but not what D lacks.
  const atLength = search.samples.slice(-1);
  let best = await compare('P and D', eachOf(splits(engines), [base]), guess, atLength);
  if (!best.best.met) return none(search, best.best);
  const near = splitsNear(best.best.candidate, engines, 1);
  const routings = space.routings.map((routing) => ({ ...base, routing }));
  if (routings.length > 1)
    best = await compare('routing policies', eachOf(near, routings), best.best.perSecond);
  const pulls = distinct(pullPolicies(best.best.candidate, space));
  if (pulls.length > 1) best = await compare('mode, store and placement', pulls, best.best.perSecond);
  const others = ranked([...known.values()], trials.slo).filter((one) => one !== best && alike(best, one));
  const smaller = await smallerFleets(search, engines, best);
  const rates = smaller.map((fleet) => fleet.best.perSecond);
  const chosen = await checkedRate(best, search);
  if (!chosen.best.met) return none(search, chosen.best);
  const rivals = await rivalsOf(chosen.best, others, search);
  const front = [...smaller.filter((_, i) => rates[i]! > Math.max(0, ...rates.slice(0, i))), chosen];
  return { chosen, closest: null, idle: null, rivals, front };
}

async function none(search: Search, closest: Outcome): Promise<BestGoodput> {
  return { chosen: null, closest, idle: await idleOf(search, closest), rivals: [], front: [] };
}

/** The rate of the same fleet in longer simulations. */
async function checkedRate(known: Goodput, search: Search): Promise<Goodput> {
  const { candidate, perSecond, ...length } = checkOf(known.best, search);
  if (length.sample === known.best.sample) return known;
  const from = { guess: perSecond, step: NEARBY };
  const found = await goodputOf(candidate, search.trials, length, { ...from, ...REPORTED });
  search.onRound({ what: 'checking', sample: length.sample, candidates: 1, kept: 1 });
  return found;
}

const ranked = (some: readonly Goodput[], slo: Slo): Goodput[] =>
  some.toSorted(
    ({ best: a }, { best: b }) =>
      Number(b.met) - Number(a.met) || b.perSecond - a.perSecond || byGoodness(a, b, slo),
  );

/** Smaller fleets with the chosen policy and about its shares of P and D, fewest engines first. */
async function smallerFleets(
  { trials, samples, onRound }: Search,
  engines: number,
  { best }: Goodput,
): Promise<Goodput[]> {
  const fleets: Goodput[] = [];
  // At full length: half of it may be over before such a fleet has filled.
  const sample = samples.at(-1)!;
  for (const fewer of smaller(engines)) {
    const share = fewer / engines;
    const prefill = Math.min(fewer - 1, Math.max(1, Math.round(best.candidate.prefill * share)));
    const candidate = { ...policyOf(best.candidate), prefill, decode: fewer - prefill };
    onRound({ what: `${fewer} engines`, sample, candidates: 1, kept: 1 });
    const guess = best.perSecond * share;
    fleets.push(await goodputOf(candidate, trials, { sample }, { guess, step: NEARBY, ...REPORTED }));
  }
  return fleets.filter((fleet) => fleet.best.met);
}

/** Whether two rates are as near to each other as bisection goes, or the fleets cannot be distinguished at the first one. */
function alike(chosen: Goodput, other: Goodput): boolean {
  if (!other.best.met) return false;
  if (other.best.perSecond * CLOSELY >= chosen.best.perSecond) return true;
  const same = other.tried.find(({ perSecond }) => perSecond === chosen.best.perSecond);
  return same !== undefined && indistinguishable(chosen.best, same);
}

/** Simulates the others as long as the chosen one: what seems alike may have differed only later. */
async function rivalsOf(chosen: Outcome, others: readonly Goodput[], search: Search): Promise<Outcome[]> {
  const { trials } = search;
  const checks = others.map(({ best }) => ({ ...checkOf(best, search), perSecond: chosen.perSecond }));
  const outcomes = await trials.runAll(checks);
  return outcomes.filter(
    (other) => other.interval.high >= trials.slo.attainment && indistinguishable(chosen, other),
  );
}

function splits(engines: number): Shape[] {
  const all = splitsOf(engines);
  if (all.length <= MOST_SPLITS) return all;
  const step = (all.length - 1) / (MOST_SPLITS - 1);
  return Array.from({ length: MOST_SPLITS }, (_, i) => all[Math.round(i * step)]!);
}

/** Some numbers of engines below the given one, down to two. */
function smaller(engines: number): number[] {
  const below = engines - 2;
  const count = Math.min(SMALLER, below);
  return [...new Set(Array.from({ length: count }, (_, i) => 2 + Math.floor((i * below) / count)))];
}

/** Returns the last candidates with their rates. */
async function race(
  what: string,
  candidates: readonly Candidate[],
  { trials, samples, onRound }: Search,
  guess: number,
): Promise<Goodput[]> {
  let standing = distinct(candidates);
  let perSecond = guess;
  const rounds = Math.min(samples.length - 1, Math.ceil(Math.log2(Math.max(1, standing.length / 2))));
  const shorter = samples.slice(samples.length - 1 - rounds, -1);
  for (let round = 0; standing.length > (round < shorter.length ? 2 : FINALS); round++) {
    // If there are more rounds than sample sizes, the longest one takes the rest.
    const sample = shorter[Math.min(round, shorter.length - 1)] ?? samples.at(-1)!;
    const pivot = await goodputOf(standing[0]!, trials, { sample }, { guess: perSecond, nearness: ROUGHLY });
    const next = await fastest(standing, trials, sample, pivot.best.perSecond);
    onRound({ what, sample, candidates: standing.length, kept: next.standing.length });
    ({ standing, perSecond } = next);
  }
  const sample = samples.at(-1)!;
  const finals: Goodput[] = [];
  for (const candidate of standing) {
    const guess = finals[0]?.best.perSecond ?? perSecond;
    finals.push(await goodputOf(candidate, trials, { sample }, { guess, ...REPORTED }));
  }
  onRound({ what, sample, candidates: finals.length, kept: 1 });
  return finals;
}

/**
 * Returns half of the candidates, or two: those that sustain the highest rates, the best first. `perSecond`: a rate
 * that only these sustain, or hardly more.
 */
async function fastest(
  candidates: readonly Candidate[],
  trials: Trials,
  sample: number,
  from: number,
): Promise<{ standing: Candidate[]; perSecond: number }> {
  const half = Math.max(2, Math.floor(candidates.length / 2));
  let standing = [...candidates];
  /** A rate that too many sustained, and one that too few did. */
  let [slow, fast]: [number, number | null] = [from, null];
  for (let step = 0, perSecond = from; ; step++) {
    const outcomes = await trials.runAll(standing.map((candidate) => ({ candidate, perSecond, sample })));
    const ranked = outcomes.toSorted((a, b) => byGoodness(a, b, trials.slo));
    const sustaining = ranked.filter(({ met }) => met).length;
    const isLast = step === MOST_DOUBLINGS || (fast !== null && fast / slow < ROUGHLY);
    if ((sustaining >= 2 && sustaining <= half) || isLast)
      return { standing: ranked.slice(0, half).map(({ candidate }) => candidate), perSecond };
    if (sustaining > half) {
      standing = ranked.slice(0, sustaining).map(({ candidate }) => candidate);
      slow = perSecond;
    } else fast = perSecond;
    perSecond = fast === null ? 2 * slow : Math.sqrt(slow * fast);
  }
}

interface RateSearch {
  /** The rate to begin with. May be far off, if shorter samples arrived all at once. */
  guess: number;
  /** First factor by which the rate changes; it grows to 2. Default: 2. */
  step?: number;
  /** The search ends when a rate that is sustained and one that is not differ by no more than this factor. */
  nearness: number;
  /** The result is reported, so requests must also arrive as often as asked, and be served as fast. */
  decides?: boolean;
}

const REPORTED = { nearness: CLOSELY, decides: true };

/** Multiplies or divides the rate until one is sustained and one is not, then bisects. */
async function goodputOf(
  candidate: Candidate,
  trials: Trials,
  length: Pick<Trial, 'sample' | 'warmUps'>,
  { guess, step = 2, nearness, decides = false }: RateSearch,
): Promise<Goodput> {
  const tried = new Map<number, Outcome>();
  const at = async (perSecond: number): Promise<Outcome> => {
    const found = await trials.run({ candidate, perSecond, ...length });
    const outcome = decides && !isSustained(found) ? { ...found, met: false } : found;
    tried.set(perSecond, outcome);
    return outcome;
  };
  const below = ({ perSecond, counted, due }: Outcome, factor: number): number =>
    decides && counted > 0 ? Math.min(perSecond / factor, (perSecond * counted) / due) : perSecond / factor;
  let best = await at(guess);
  let above: Outcome | null = best.met ? null : best;
  let factor = step;
  for (let i = 0; i < MOST_DOUBLINGS && (above === null || !best.met); i++) {
    const next = await at(best.met ? best.perSecond * factor : below(best, factor));
    factor = Math.min(2, factor ** 2);
    if (!next.met) above = next;
    if (next.met || !best.met) best = next;
  }
  if (best.met && above) {
    while (above.perSecond / best.perSecond > nearness) {
      const middle = await at(Math.sqrt(above.perSecond * best.perSecond));
      if (middle.met) best = middle;
      else above = middle;
    }
  }
  return { best, above, ...surelyOf(tried, trials), tried: rising(tried) };
}

const rising = (tried: ReadonlyMap<number, Outcome>): Outcome[] =>
  [...tried.values()].toSorted((a, b) => a.perSecond - b.perSecond);

function surelyOf(tried: ReadonlyMap<number, Outcome>, { slo }: Trials) {
  const all = rising(tried);
  const yes = all.filter(({ met, interval }) => met && interval.low >= slo.attainment);
  const no = all.filter(({ met, interval }) => !met && interval.high < slo.attainment);
  return { surely: yes.at(-1)?.perSecond ?? null, surelyNot: no[0]?.perSecond ?? null };
}
