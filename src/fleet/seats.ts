/** The places of a fleet: who is in it, of which roleset, with what of its own, and what lies between which two. */

import { didYouMean } from '../config/fields.ts';
import type { FleetEngine, FleetFile } from '../config/fleet-schema.ts';
import type { RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { RolesetBounds } from '../router/placement.ts';
import { type LinkSpec, parseLink } from '../transport/link.ts';

/** A place in the fleet: an engine has it, and after that one's end another. */
export interface Seat {
  name: string;
  role: EngineRole;
  /** It does both, where no P and D can. */
  combined: boolean;
  roleset: string;
  /** What it has of its own; the rest is its role's. */
  own: { numBlocks?: number; enablePrefixCaching?: boolean };
}

/** What a link's two ends are called, in either order. */
export interface PairLink {
  between: readonly [string, string];
  link: LinkSpec;
}

export interface FleetOptions {
  seats: readonly Seat[];
  rolesets: readonly RolesetBounds[];
  /** Pairs that differ from the cluster's link. */
  links: readonly PairLink[];
}

/** So many P and D, in one roleset. */
export function plainFleet(counts: Readonly<Record<EngineRole, number>>): FleetOptions {
  const roleset = 'all';
  const seats = (['prefill', 'decode'] as const).flatMap((role) =>
    Array.from({ length: counts[role] }, (_, i): Seat => {
      return { name: `${role}-${i}`, role, combined: false, roleset, own: {} };
    }),
  );
  return { seats, rolesets: [{ name: roleset, min: 0, max: null }], links: [] };
}

/** Throws ConfigError for a fleet that contradicts itself. */
export function fleetOf(config: Pick<RunConfig, 'fleet' | 'prefill' | 'decode'>): FleetOptions {
  const { fleet, prefill, decode } = config;
  return fleet ? fleetFromFile(fleet) : plainFleet({ prefill, decode });
}

type Kind = 'prefill' | 'decode' | 'both';

function fleetFromFile(file: FleetFile): FleetOptions {
  const count = { prefill: 0, decode: 0, both: 0 };
  const placed: { seat: Seat; node: string | null }[] = [];
  const rolesets: RolesetBounds[] = [];
  for (const [index, roleset] of file.rolesets.entries()) {
    const name = roleset.name ?? `roleset-${index}`;
    if (rolesets.some((other) => other.name === name))
      wrong(`two rolesets are called ${name}: give each its own name`);
    const { prefill, decode, both } = roleset;
    checkRoleset(name, prefill.length, decode.length, both.length);
    const { min = 0, max = 0 } = roleset.promptTokens ?? {};
    if (max > 0 && min > max)
      wrong(`roleset ${name} takes prompts of ${min} to ${max} tokens: none; swap the bounds`);
    rolesets.push({ name, min, max: max === 0 ? null : max });
    const add = (kind: Kind, engines: readonly FleetEngine[]): void => {
      for (const engine of engines) {
        const seat = seatOf(`${kind}-${count[kind]++}`, kind, name, engine);
        placed.push({ seat, node: engine.node ?? roleset.node ?? null });
      }
    };
    add('prefill', prefill);
    add('decode', decode);
    add('both', both);
  }
  // P before D before those that do both, whatever their rolesets: as ports and figures are listed.
  const order = ({ seat: { role, combined } }: (typeof placed)[number]): number =>
    combined ? 2 : role === 'prefill' ? 0 : 1;
  const ordered = placed.toSorted((a, b) => order(a) - order(b));
  return { seats: ordered.map(({ seat }) => seat), rolesets, links: linksOf(file, ordered) };
}

function checkRoleset(name: string, prefill: number, decode: number, both: number): void {
  if (prefill > 0 && decode === 0)
    wrong(`roleset ${name} has ${prefill} P and no D: give it one D at least, or no P`);
  if (decode > 0 && prefill === 0)
    wrong(`roleset ${name} has ${decode} D and no P: give it one P at least, or no D`);
  if (prefill + decode + both === 0) wrong(`roleset ${name} has no engines: give it some, or leave it out`);
}

function seatOf(name: string, kind: Kind, roleset: string, { blocks, prefixCaching }: FleetEngine): Seat {
  return {
    name,
    role: kind === 'prefill' ? 'prefill' : 'decode',
    combined: kind === 'both',
    roleset,
    own: {
      ...(blocks === undefined ? {} : { numBlocks: blocks }),
      ...(prefixCaching === undefined ? {} : { enablePrefixCaching: prefixCaching }),
    },
  };
}

/** Pairs by name first; then by where both stand. */
function linksOf(
  { links, sameNode, acrossNodes }: FleetFile,
  placed: readonly { seat: Seat; node: string | null }[],
): PairLink[] {
  const names = placed.map(({ seat }) => seat.name);
  const found = new Map<string, PairLink>();
  for (const { between, link } of links) {
    const [a, b] = between;
    for (const name of between) {
      if (names.includes(name)) continue;
      wrong(
        `a link is between ${a} and ${b}, and there is no engine ${name}${didYouMean(name, names)}: there are ${names.join(', ')}`,
      );
    }
    if (a === b) wrong(`a link is between ${a} and itself: name two engines`);
    if (found.has(pairKey(a, b)))
      wrong(`the link between ${a} and ${b} is given twice: leave one of them out`);
    found.set(pairKey(a, b), { between, link: parseLink(link) });
  }
  const inside = sameNode === undefined ? null : parseLink(sameNode);
  const across = acrossNodes === undefined ? null : parseLink(acrossNodes);
  for (const [i, one] of placed.entries()) {
    for (const other of placed.slice(i + 1)) {
      const link = one.node === other.node ? inside : across;
      const key = pairKey(one.seat.name, other.seat.name);
      if (one.node === null || other.node === null || !link || found.has(key)) continue;
      found.set(key, { between: [one.seat.name, other.seat.name], link });
    }
  }
  return [...found.values()];
}

const pairKey = (a: string, b: string): string => [a, b].toSorted().join(' ');

function wrong(what: string): never {
  throw new ConfigError(`the fleet contradicts itself: ${what}`);
}
