/** The seats of a fleet: their roles, rolesets and own settings, and the links between them. */

import { didYouMean } from '../config/fields.ts';
import { type FleetEngine, type FleetFile, MOST_ENGINES, MOST_REAL_ENGINES } from '../config/fleet-schema.ts';
import type { RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { RolesetBounds } from '../router/placement.ts';
import { type LinkSpec, parseLink } from '../transport/link.ts';

/** A place in the fleet. An engine has it, and a replacement after that engine has ended. */
export interface Seat {
  name: string;
  /** Unique in the fleet; determines the engine's port. */
  index: number;
  role: EngineRole;
  /** Serves whole turns where no P and D can. */
  combined: boolean;
  roleset: string;
  /** The node that it is on; null: not given. */
  node: string | null;
  /** Its own settings; all others are its role's. */
  own: { numBlocks?: number; enablePrefixCaching?: boolean };
}

/** The names of a link's two ends, in either order. */
export interface PairLink {
  between: readonly [string, string];
  link: LinkSpec;
}

export interface FleetOptions {
  seats: readonly Seat[];
  rolesets: readonly RolesetBounds[];
  /** Pairs whose link differs from the cluster's. */
  links: readonly PairLink[];
  /** Links between seats with known nodes, also for engines that join later; null: the cluster's link. */
  sameNode: LinkSpec | null;
  acrossNodes: LinkSpec | null;
  /** The file's settings for single seats and pairs, for engines that take such a seat again later. */
  listed: { seats: readonly Seat[]; links: readonly PairLink[] };
}

/** A fleet of the given numbers of P and D, in one roleset. */
export function plainFleet(counts: Readonly<Record<EngineRole, number>>): FleetOptions {
  const roleset = 'all';
  const seats = (['prefill', 'decode'] as const).flatMap((role) =>
    Array.from({ length: counts[role] }, (_, i) => {
      return { name: `${role}-${i}`, role, combined: false, roleset, node: null, own: {} };
    }),
  );
  return {
    seats: seats.map((seat, index) => ({ ...seat, index })),
    rolesets: [{ name: roleset, min: 0, max: null }],
    links: [],
    sameNode: null,
    acrossNodes: null,
    listed: { seats: [], links: [] },
  };
}

/** Sorts P before D before combined engines, whatever their rolesets: the order of ports and reports. */
const inOrder = <T extends Pick<Seat, 'role' | 'combined'>>(seats: readonly T[]): T[] => {
  const order = ({ role, combined }: T): number => (combined ? 2 : role === 'prefill' ? 0 : 1);
  return seats.toSorted((a, b) => order(a) - order(b));
};

/**
 * Adds a seat. If the file lists a seat of that name and roleset, its settings are used. Otherwise it is placed on
 * the node of the seats of the same role and roleset, and nodes determine its links.
 */
export function withSeat(
  fleet: FleetOptions,
  { name, role, roleset }: Pick<Seat, 'name' | 'role' | 'roleset'>,
): FleetOptions {
  const { seats, listed } = fleet;
  const sameRole = seats.find((seat) => seat.roleset === roleset && seat.role === role && !seat.combined);
  const before = listed.seats.find((seat) => seat.name === name && seat.roleset === roleset);
  const taken = new Set(seats.map(({ index }) => index));
  let index = 0;
  while (taken.has(index)) index++;
  const node = (before ?? sameRole)?.node ?? null;
  const seat = { name, index, role, combined: false, roleset, node, own: before?.own ?? {} };
  const links = seats.flatMap(
    (other) => pairOf(listed.links, name, other.name) ?? nodeLink(fleet, seat, other) ?? [],
  );
  return { ...fleet, seats: inOrder([...seats, seat]), links: [...fleet.links, ...links] };
}

export function withoutSeat(fleet: FleetOptions, name: string): FleetOptions {
  return {
    ...fleet,
    seats: fleet.seats.filter((seat) => seat.name !== name),
    links: fleet.links.filter(({ between }) => !between.includes(name)),
  };
}

/** Throws ConfigError for a fleet that contradicts itself. */
export function fleetOf(config: Pick<RunConfig, 'fleet' | 'prefill' | 'decode'>): FleetOptions {
  const { fleet, prefill, decode } = config;
  return fleet ? fleetFromFile(fleet) : plainFleet({ prefill, decode });
}

/** Throws ConfigError if this machine cannot have so many engines. */
export function checkThreads(seats: readonly Pick<Seat, 'role'>[]): void {
  for (const role of ['prefill', 'decode'] as const) {
    const count = seats.filter((seat) => seat.role === role).length;
    if (count > MOST_REAL_ENGINES)
      throw new ConfigError(
        `${count} engines would ${role}, and each is a thread with a device: wanted at most ${MOST_REAL_ENGINES}; kvferry simulate takes up to ${MOST_ENGINES}`,
      );
  }
}

type Kind = 'prefill' | 'decode' | 'both';

function fleetFromFile(file: FleetFile): FleetOptions {
  const count = { prefill: 0, decode: 0, both: 0 };
  const placed: Omit<Seat, 'index'>[] = [];
  const rolesets: RolesetBounds[] = [];
  for (const [index, roleset] of file.rolesets.entries()) {
    const name = roleset.name ?? `roleset-${index}`;
    if (rolesets.some((other) => other.name === name))
      wrong(`two rolesets are called ${name}: give each its own name`);
    const { prefill, decode, both } = roleset;
    checkRoleset(name, prefill.length, decode.length, both.length);
    const { min = 0, max = 0 } = roleset.promptTokens ?? {};
    if (max > 0 && min > max)
      wrong(`roleset ${name} takes prompts of ${min} to ${max} tokens, an empty range: swap the bounds`);
    rolesets.push({ name, min, max: max === 0 ? null : max });
    const add = (kind: Kind, engines: readonly FleetEngine[]): void => {
      for (const engine of engines) {
        const node = engine.node ?? roleset.node ?? null;
        placed.push(seatOf(`${kind}-${count[kind]++}`, kind, name, node, engine));
      }
    };
    add('prefill', prefill);
    add('decode', decode);
    add('both', both);
  }
  const seats = inOrder(placed).map((seat, index) => ({ ...seat, index }));
  const [sameNode, acrossNodes] = [file.sameNode, file.acrossNodes].map((link) =>
    link === undefined ? null : parseLink(link),
  ) as [LinkSpec | null, LinkSpec | null];
  const named = namedLinks(file, seats);
  const links = allLinks(named, seats, { sameNode, acrossNodes });
  return { seats, rolesets, links, sameNode, acrossNodes, listed: { seats, links: named } };
}

function checkRoleset(name: string, prefill: number, decode: number, both: number): void {
  if (prefill > 0 && decode === 0)
    wrong(`roleset ${name} has ${prefill} P and no D: give it at least one D, or no P`);
  if (decode > 0 && prefill === 0)
    wrong(`roleset ${name} has ${decode} D and no P: give it at least one P, or no D`);
  if (prefill + decode + both === 0) wrong(`roleset ${name} has no engines: give it some, or remove it`);
}

function seatOf(
  name: string,
  kind: Kind,
  roleset: string,
  node: string | null,
  { blocks, prefixCaching }: FleetEngine,
): Omit<Seat, 'index'> {
  return {
    name,
    role: kind === 'prefill' ? 'prefill' : 'decode',
    combined: kind === 'both',
    roleset,
    node,
    own: {
      ...(blocks === undefined ? {} : { numBlocks: blocks }),
      ...(prefixCaching === undefined ? {} : { enablePrefixCaching: prefixCaching }),
    },
  };
}

function namedLinks({ links }: FleetFile, seats: readonly Seat[]): PairLink[] {
  const names = seats.map(({ name }) => name);
  const found: PairLink[] = [];
  for (const { between, link } of links) {
    const [a, b] = between;
    for (const name of between) {
      if (names.includes(name)) continue;
      wrong(
        `a link is between ${a} and ${b}, but there is no engine ${name}${didYouMean(name, names)}: there are ${names.join(', ')}`,
      );
    }
    if (a === b) wrong(`a link is between ${a} and itself: name two engines`);
    if (pairOf(found, a, b)) wrong(`the link between ${a} and ${b} is given twice: leave one of them out`);
    found.push({ between, link: parseLink(link) });
  }
  return found;
}

/** Links given by name take precedence over links given by node. */
function allLinks(
  named: readonly PairLink[],
  seats: readonly Seat[],
  nodeLinks: Pick<FleetOptions, 'sameNode' | 'acrossNodes'>,
): PairLink[] {
  const byNode = seats.flatMap((one, i) =>
    seats
      .slice(i + 1)
      .flatMap((other) =>
        pairOf(named, one.name, other.name) ? [] : (nodeLink(nodeLinks, one, other) ?? []),
      ),
  );
  return [...named, ...byNode];
}

function nodeLink(
  { sameNode, acrossNodes }: Pick<FleetOptions, 'sameNode' | 'acrossNodes'>,
  one: Seat,
  other: Seat,
): PairLink | null {
  const link = one.node === other.node ? sameNode : acrossNodes;
  if (one.node === null || other.node === null || !link) return null;
  return { between: [one.name, other.name], link };
}

/** The link between two seats; null: the cluster's. */
export const linkBetween = ({ links }: Pick<FleetOptions, 'links'>, a: string, b: string): LinkSpec | null =>
  pairOf(links, a, b)?.link ?? null;

const pairOf = (links: readonly PairLink[], a: string, b: string): PairLink | undefined =>
  links.find(({ between }) => between.includes(a) && between.includes(b));

function wrong(what: string): never {
  throw new ConfigError(`the fleet contradicts itself: ${what}`);
}
