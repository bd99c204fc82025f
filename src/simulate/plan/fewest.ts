/**
 * Finds the fewest engines that keep an SLO at a rate. Grows from one P and one D until it is kept, reduces each role,
 * compares policies at that size, grows again if a longer sample does not confirm it, and then tries every near split
 * and good policy with one engine fewer, until none keeps the SLO. The answer is checked with far more requests.
 */
import { MOST_REAL_ENGINES } from '../../config/fleet-schema.ts';
import { type Candidate, distinct, enginesOf, type Policy, type Shape, splitsNear } from './candidate.ts';
import { byGoodness, halve, type Round } from './halving.ts';
import type { Outcome } from './outcome.ts';
import {
  checkOf,
  eachOf,
  Front,
  firstPolicy,
  idleOf,
  indistinguishable,
  policyOf,
  pullPolicies,
  roughly,
  type Search,
} from './space.ts';

export interface Fewest {
  /** null: nothing that was tried keeps the SLO. */
  chosen: Outcome | null;
  /** What came closest, if nothing keeps it. */
  closest: Outcome | null;
  /** The closest one with almost no load: no number of engines can do better. */
  idle: Outcome | null;
  /** Fleets with as many engines, simulated as long, that cannot be distinguished from the chosen one. */
  rivals: Outcome[];
  /** The best fleet with one engine fewer than the chosen one; null: none was tried. */
  oneFewer: Outcome | null;
  front: Outcome[];
}

/** Gain in the share of requests that keep the SLO, from which on a doubling counts as progress. */
const GAIN = 0.01;
/** A role that is busy for no more than this share of the time does not lack engines. */
const UNHURRIED = 0.8;
/** Doublings in a row without progress after which growing stops. */
const VAIN = 3;
/** Policies that are tried on smaller fleets. */
const POLICIES_KEPT = 3;
/** Fleets larger than the chosen one, for the front. */
const LARGER = 2;

/** `perSecond`: the rate to sustain, requests a second. */
export async function fewestEngines(search: Search, perSecond: number): Promise<Fewest> {
  const { trials, samples, space, onRound } = search;
  const longest = samples.at(-1)!;
  const front = new Front(trials.slo);
  /** Compares candidates; returns all outcomes at full length with as many engines, the best first. */
  const compare = async (what: string, candidates: readonly Candidate[]): Promise<Outcome[]> => {
    front.add(await halve(candidates, trials, { what, perSecond, samples, onRound }));
    return front.ranked(enginesOf(candidates[0]!));
  };
  let grown = await grownBySome(search, perSecond, roughly(samples));
  // Short simulations have more first turns, whose prompts may be too long for the SLO in any fleet.
  if (!grown.met) grown = await grownBySome(search, perSecond, longest);
  if (!grown.met) return nothing(search, grown, [grown]);
  const { candidate: shape } = await trim(search, perSecond, grown);

  const base = policyOf(shape);
  const routings = space.routings.map((routing) => ({ ...base, routing }));
  let known = await compare('routing policies', eachOf(splitsNear(shape, enginesOf(shape), 1), routings));
  const pulls = distinct(pullPolicies(known[0]!.candidate, space));
  if (pulls.length > 1) known = await compare('mode, store and placement', pulls);

  const nextTo = (engines: number, best: Candidate, policies: readonly Policy[]) =>
    compare(`${engines} engines`, eachOf(splitsNear(best, engines, 1), policies));
  // A fleet that keeps the SLO in a short sample may not keep it in a long one.
  if (!known[0]!.met) {
    const { candidate } = known[0]!;
    const larger = await grow(search, perSecond, {
      from: candidate,
      policy: policyOf(candidate),
      sample: longest,
    });
    if (!larger.met) return nothing(search, larger, front.rows);
    const enough = await trim(search, perSecond, larger);
    front.add([enough]);
    known = await nextTo(enginesOf(enough.candidate), enough.candidate, policiesOf(known));
  }

  for (let engines = enginesOf(known[0]!.candidate) - 1; engines >= 2; engines--) {
    const fewer = await nextTo(engines, known[0]!.candidate, policiesOf(known));
    if (!fewer[0]!.met) break;
    known = fewer;
  }

  /** Simulates fleets longer. */
  const check = async (...outcomes: readonly Outcome[]): Promise<Outcome[]> => {
    const longer = await trials.runAll(outcomes.map((outcome) => checkOf(outcome, search)));
    const kept = longer.filter(({ met }) => met).length;
    onRound({ what: 'checking', sample: longer[0]!.sample, candidates: longer.length, kept });
    front.checked(longer);
    return longer;
  };
  const isSure = ({ interval }: Outcome): boolean => interval.low >= trials.slo.attainment;
  const mayDo = ({ interval }: Outcome): boolean => interval.high >= trials.slo.attainment;
  const enginesNow = (): number => enginesOf(known[0]!.candidate);
  const withOneFewer = (): Outcome[] => front.ranked(enginesNow() - 1).slice(0, 1);
  let [checked, fewer] = await check(known[0]!, ...withOneFewer().filter(mayDo));
  while (checked!.met && fewer?.met) {
    known = front.ranked(enginesNow() - 1);
    if (enginesNow() > 2) await nextTo(enginesNow() - 1, known[0]!.candidate, policiesOf(known));
    [checked, fewer] = await check(known[0]!, ...withOneFewer().filter(mayDo));
  }
  while (!checked!.met) {
    if (enginesNow() === space.maxEngines) return nothing(search, checked!, front.rows);
    known = await nextTo(enginesNow() + 1, known[0]!.candidate, policiesOf(known));
    [checked] = await check(known[0]!);
  }
  let chosen = known[0]!;
  const frugal = await withLeastStore(chosen, search);
  if (frugal !== chosen) {
    const [longer] = await check(frugal);
    if (longer!.met) [chosen, checked] = [frugal, longer];
  }
  front.choose(chosen);
  const others = known.filter((other) => other !== chosen);
  const engines = enginesNow();
  for (let more = engines + 1; more <= Math.min(engines + LARGER, space.maxEngines); more++) {
    const [best] = await nextTo(more, chosen.candidate, [policyOf(chosen.candidate)]);
    if (more === engines + 1 && !isSure(checked!)) await check(best!);
  }
  const rivals = others.filter((other) => other.met && indistinguishable(chosen, other));
  const oneFewer = front.best(engines - 1);
  return { chosen: checked!, closest: null, idle: null, rivals, oneFewer, front: front.rows };
}

/** The same fleet with the smallest store, or none, that keeps the SLO and cannot be distinguished from the given one. */
async function withLeastStore(best: Outcome, { trials, space }: Search): Promise<Outcome> {
  const { candidate, perSecond, sample } = best;
  const bytesOf = (storeBytes: number | null): number => storeBytes ?? 0;
  const smaller = space.stores.filter((bytes) => bytesOf(bytes) < bytesOf(candidate.storeBytes));
  for (const storeBytes of smaller.toSorted((a, b) => bytesOf(a) - bytesOf(b))) {
    const other = await trials.run({ candidate: { ...candidate, storeBytes }, perSecond, sample });
    if (other.met && indistinguishable(best, other)) return other;
  }
  return best;
}

/** The distinct policies of the best outcomes. */
function policiesOf(known: readonly Outcome[]): Policy[] {
  const policies = new Map(
    known.map(({ candidate }) => {
      const policy = policyOf(candidate);
      return [JSON.stringify(policy), policy];
    }),
  );
  return [...policies.values()].slice(0, POLICIES_KEPT);
}

async function nothing(search: Search, closest: Outcome, front: Outcome[]): Promise<Fewest> {
  const idle = await idleOf(search, closest);
  return { chosen: null, closest, idle, rivals: [], oneFewer: null, front };
}

/**
 * Grows with the first policy. If no number of engines keeps the SLO with it, grows with the policy that is then best.
 */
async function grownBySome(search: Search, perSecond: number, sample: number): Promise<Outcome> {
  const { trials, space, onRound } = search;
  const grown = await grow(search, perSecond, { from: ONE_EACH, policy: firstPolicy(space), sample });
  if (grown.met) return grown;
  const { candidate } = grown;
  const routed = space.routings.map((routing) => ({ ...candidate, routing }));
  const others = distinct([...pullPolicies(candidate, space), ...routed]);
  if (others.length === 1) return grown;
  const outcomes = await trials.runAll(others.map((other) => ({ candidate: other, perSecond, sample })));
  onRound({ what: 'any policy', sample, candidates: others.length, kept: 1 });
  const [best] = outcomes.toSorted((a, b) => byGoodness(a, b, trials.slo));
  const again = await grow(search, perSecond, { from: ONE_EACH, policy: policyOf(best!.candidate), sample });
  return byGoodness(again, grown, trials.slo) < 0 ? again : grown;
}

const ONE_EACH: Shape = { prefill: 1, decode: 1 };

interface Growth {
  from: Shape;
  policy: Policy;
  /** Requests of each simulation. */
  sample: number;
}

/**
 * Doubles the role that is lacking until the SLO is kept. Returns the last outcome, or the best if none keeps it. D is
 * busy whenever it decodes at all, so it may seem to lack engines where P does: if nothing keeps the SLO, grows again,
 * with more P wherever more D gained nothing.
 */
async function grow(search: Search, perSecond: number, growth: Growth): Promise<Outcome> {
  const grown = await growOnce(search, perSecond, growth, false);
  if (grown.met) return grown;
  const again = await growOnce(search, perSecond, growth, true);
  return byGoodness(again, grown, search.trials.slo) < 0 ? again : grown;
}

async function growOnce(
  { trials, space, onRound }: Search,
  perSecond: number,
  { from, policy, sample }: Growth,
  doubtsD: boolean,
): Promise<Outcome> {
  let shape: Shape = { prefill: from.prefill, decode: from.decode };
  let best: Outcome | null = null;
  let vain = 0;
  let role: keyof Shape | null = null;
  for (;;) {
    const outcome = await trials.run({ candidate: { ...shape, ...policy }, perSecond, sample });
    const round: Round = { what: 'growing', sample, candidates: 1, kept: outcome.met ? 1 : 0 };
    onRound(round);
    if (outcome.met) return outcome;
    const gained = best === null || outcome.share > best.share + GAIN;
    const hurried = Math.max(outcome.busy.prefill, outcome.busy.decode) > UNHURRIED;
    vain = gained || hurried ? 0 : vain + 1;
    if (best === null || byGoodness(outcome, best, trials.slo) < 0) best = outcome;
    const believes: boolean = hurried && !(doubtsD && role === 'decode');
    role = gained || believes || role === null ? lacking(outcome) : other(role);
    const larger = enlarged(shape, role, space.maxEngines) ?? enlarged(shape, other(role), space.maxEngines);
    if (!larger || vain >= VAIN) return best;
    shape = larger;
  }
}

const other = (role: keyof Shape): keyof Shape => (role === 'prefill' ? 'decode' : 'prefill');

/** The role to enlarge, judged by which limit more requests missed and by which role is busier. */
function lacking({ missed, busy }: Outcome): keyof Shape {
  if (missed.tpot > missed.ttft) return 'decode';
  // A first token also waits for room at D.
  return busy.prefill > UNHURRIED || busy.prefill >= busy.decode ? 'prefill' : 'decode';
}

/** Returns null if the fleet may not be larger. */
function enlarged(shape: Shape, role: keyof Shape, maxEngines: number): Shape | null {
  const room = Math.min(MOST_REAL_ENGINES, maxEngines - shape[other(role)]);
  const engines = Math.min(room, 2 * shape[role]);
  return engines > shape[role] ? { ...shape, [role]: engines } : null;
}

/** Reduces each role to what is needed, by bisection. */
async function trim({ trials, onRound }: Search, perSecond: number, from: Outcome): Promise<Outcome> {
  const { sample } = from;
  let least = from;
  const { prefill, decode } = from.candidate;
  // The larger role first.
  const roles: (keyof Shape)[] = prefill >= decode ? ['prefill', 'decode'] : ['decode', 'prefill'];
  for (const role of roles) {
    let tooFew = 0;
    for (;;) {
      const { candidate } = least;
      const middle = Math.floor((tooFew + candidate[role]) / 2);
      if (middle === tooFew) break;
      const outcome = await trials.run({ candidate: { ...candidate, [role]: middle }, perSecond, sample });
      onRound({ what: 'reducing', sample, candidates: 1, kept: outcome.met ? 1 : 0 });
      if (outcome.met) least = outcome;
      else tooFew = middle;
    }
  }
  return least;
}
