/** Decides which engines join and which leave to reach a target. Pure. */
import { MOST_REAL_ENGINES } from '../../config/fleet-schema.ts';
import { RequestError } from '../../errors.ts';
import type { EngineRole } from '../engine-client.ts';

/** How many engines there should be. A role that is absent stays unchanged. */
export interface ScaleTarget {
  prefill?: number;
  decode?: number;
  /** The roleset to scale; required if several have P and D. */
  roleset?: string;
}

/** An engine as scaling sees it. */
export interface Scalable {
  /** The seat's name, which a replacement keeps. */
  name: string;
  role: EngineRole;
  combined: boolean;
  roleset: string;
  ended: boolean;
  /**
   * Turns under way and requests on its own port that need it, and tokens that it holds for next turns: what leaving
   * would cost.
   */
  turns: number;
  heldTokens: number;
}

export interface ScalePlan {
  add: readonly { name: string; role: EngineRole; roleset: string }[];
  /** Names of seats. */
  remove: readonly string[];
}

const ROLES = ['prefill', 'decode'] as const;

/**
 * Engines that have ended leave first, then those that the fewest turns and requests need, then those that hold the
 * least, then those with the highest number in their name. Throws RequestError for an impossible target.
 */
export function planScale(target: ScaleTarget, engines: readonly Scalable[]): ScalePlan {
  const roleset = rolesetOf(target, engines);
  const plan: { add: ScalePlan['add'][number][]; remove: string[] } = { add: [], remove: [] };
  for (const role of ROLES) {
    const want = target[role];
    if (want === undefined) continue;
    checkCount(role, want);
    const ofRole = engines.filter((engine) => engine.role === role && !engine.combined);
    const here = ofRole.filter((engine) => engine.roleset === roleset);
    const names = freeNames(role, ofRole);
    for (let i = here.length; i < want; i++) plan.add.push({ name: names(), role, roleset });
    const cheapest = here.toSorted(
      (a, b) =>
        Number(b.ended) - Number(a.ended) ||
        a.turns - b.turns ||
        a.heldTokens - b.heldTokens ||
        numberOf(b.name) - numberOf(a.name),
    );
    plan.remove.push(...cheapest.slice(0, Math.max(0, here.length - want)).map(({ name }) => name));
  }
  return plan;
}

/** The roleset that the target names, or the only one with P and D. */
function rolesetOf({ roleset }: ScaleTarget, engines: readonly Scalable[]): string {
  const pairs = engines.filter(({ combined }) => !combined);
  const known = [...new Set(pairs.map((engine) => engine.roleset))];
  if (roleset === undefined) {
    if (known.length === 1) return known[0]!;
    if (known.length === 0) throw new RequestError('every engine does both: there is no P or D to scale');
    throw new RequestError(`the fleet has rolesets ${known.join(', ')}: name the one to scale in roleset`);
  }
  if (known.includes(roleset)) return roleset;
  throw new RequestError(`there is no roleset ${roleset} with P and D: wanted one of ${known.join(', ')}`);
}

function checkCount(role: EngineRole, want: number): void {
  if (Number.isInteger(want) && want >= 1 && want <= MOST_REAL_ENGINES) return;
  const what = role === 'prefill' ? 'P' : 'D';
  const why = want < 1 ? `without a ${what} nothing is served` : `each ${what} is a thread and a device`;
  throw new RequestError(
    `cannot scale ${role} to ${want}: ${why}; give a whole number from 1 to ${MOST_REAL_ENGINES}, nothing was changed`,
  );
}

/** The number in an engine's name: 1 for decode-1. */
export const numberOf = (name: string): number => Number(/\d+$/.exec(name)?.[0] ?? 0);

/** prefill-0, prefill-1, ...: the first free names across all rolesets. */
function freeNames(role: EngineRole, ofRole: readonly Scalable[]): () => string {
  const taken = new Set(ofRole.map(({ name }) => name));
  let next = 0;
  return () => {
    while (taken.has(`${role}-${next}`)) next++;
    return `${role}-${next++}`;
  };
}
