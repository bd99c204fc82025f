/** Finds about how many P and D keep an SLO at a rate: doubles the role that is lacking, then reduces each by bisection. */
import { MOST_REAL_ENGINES } from '../../config/fleet-schema.ts';
import { distinct, type Policy, type Shape } from './candidate.ts';
import { byGoodness, type Round } from './halving.ts';
import type { Outcome } from './outcome.ts';
import { firstPolicy, policyOf, pullPolicies, type Search } from './space.ts';

/** Gain in the share of requests that keep the SLO, from which on a doubling counts as progress. */
const GAIN = 0.01;
/** A role that is busy for no more than this share of the time does not lack engines. */
const UNHURRIED = 0.8;
/** Doublings in a row without progress after which growing stops. */
const VAIN = 3;

/**
 * Grows with the first policy. If no number of engines keeps the SLO with it, grows with the policy that is then best.
 */
export async function grownBySome(search: Search, perSecond: number, sample: number): Promise<Outcome> {
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

export interface Growth {
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
export async function grow(search: Search, perSecond: number, growth: Growth): Promise<Outcome> {
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
export async function trim({ trials, onRound }: Search, perSecond: number, from: Outcome): Promise<Outcome> {
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
