/**
 * Finds the fewest engines that keep an SLO at a rate. Grows from one P and one D until it is kept, reduces each role,
 * compares policies at that size, grows again if a longer sample does not confirm it, and then tries every near split
 * and good policy with one engine fewer, until none keeps the SLO. The answer is checked with far more requests.
 */
import { Contest } from './contest.ts';
import { grow, grownBySome, trim } from './growing.ts';
import type { Outcome } from './outcome.ts';
import { idleOf, indistinguishable, policyOf, roughly, type Search } from './space.ts';

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

/** Fleets larger than the chosen one, for the front. */
const LARGER = 2;

/** `perSecond`: the rate to sustain, requests a second. */
export async function fewestEngines(search: Search, perSecond: number): Promise<Fewest> {
  const { trials, samples, space } = search;
  const longest = samples.at(-1)!;
  let grown = await grownBySome(search, perSecond, roughly(samples));
  // Short simulations have more first turns, whose prompts may be too long for the SLO in any fleet.
  if (!grown.met) grown = await grownBySome(search, perSecond, longest);
  if (!grown.met) return nothing(search, grown, [grown]);

  const contest = new Contest(search, perSecond);
  const { front } = contest;
  await contest.compareAll((await trim(search, perSecond, grown)).candidate);
  // A fleet that keeps the SLO in a short sample may not keep it in a long one.
  if (!contest.best.met) {
    const { candidate } = contest.best;
    const from = { from: candidate, policy: policyOf(candidate), sample: longest };
    const larger = await grow(search, perSecond, from);
    if (!larger.met) return nothing(search, larger, front.rows);
    await contest.beginAgain(await trim(search, perSecond, larger));
  }
  await contest.reduce();
  let checked = await contest.confirm();
  if (!checked.met) return nothing(search, checked, front.rows);

  let chosen = contest.best;
  const frugal = await withLeastStore(chosen, search);
  if (frugal !== chosen) {
    const [longer] = await contest.check(frugal);
    if (longer!.met) [chosen, checked] = [frugal, longer!];
  }
  front.choose(chosen);
  const { engines, known } = contest;
  for (let more = engines + 1; more <= Math.min(engines + LARGER, space.maxEngines); more++) {
    const [best] = await contest.nextTo(more, chosen.candidate, [policyOf(chosen.candidate)]);
    const isSure = checked.interval.low >= trials.slo.attainment;
    if (more === engines + 1 && !isSure) await contest.check(best!);
  }
  const rivals = known.filter((one) => one !== chosen && one.met && indistinguishable(chosen, one));
  const oneFewer = front.best(engines - 1);
  return { chosen: checked, closest: null, idle: null, rivals, oneFewer, front: front.rows };
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

async function nothing(search: Search, closest: Outcome, front: Outcome[]): Promise<Fewest> {
  const idle = await idleOf(search, closest);
  return { chosen: null, closest, idle, rivals: [], oneFewer: null, front };
}
