/** A candidate fleet: how many P and D, how they are grouped, which policy routes, and what is pulled back or stored. */

import { usesStore } from '../../config/connectors.ts';
import {
  type FleetFile,
  fleetFileSchema,
  MOST_REAL_ENGINES,
  type PlacementMode,
} from '../../config/fleet-schema.ts';
import type { ConnectorConfig } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import { fleetOf } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';

/** Engines of each role, at least one. */
export interface Shape {
  prefill: number;
  decode: number;
}

export interface Policy {
  routing: RoutingChoice;
  mode: Mode;
  /** P's kv_recompute_threshold, tokens; it has an effect only if KV is pulled back. */
  threshold: number;
  placement: PlacementMode;
  /** Bytes of the store; null: there is none. */
  storeBytes: number | null;
}

export type Candidate = Shape & Policy;

export const enginesOf = ({ prefill, decode }: Shape): number => prefill + decode;

/** Equal for the same fleet under the same policy. */
export function keyOf(one: Candidate): string {
  const { prefill, decode, routing, mode, threshold, storeBytes } = one;
  const pulled = mode === 'bidirectional' ? threshold : '';
  return [prefill, decode, groupsOf(one), routing.name, mode, pulled, storeBytes ?? ''].join(' ');
}

/** The first candidate of each key. */
export const distinct = (candidates: readonly Candidate[]): Candidate[] =>
  [...new Map(candidates.toReversed().map((one) => [keyOf(one), one])).values()].toReversed();

/** Number of rolesets, all alike: in replica mode as many as the numbers of P and D allow, otherwise one. */
export const groupsOf = ({ prefill, decode, placement }: Shape & Pick<Policy, 'placement'>): number =>
  placement === 'replica' ? greatestCommonDivisor(prefill, decode) : 1;

const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b);

export interface PlannedFleet {
  rolesets: { prefill: number; decode: number }[];
}

/** The fleet as a --fleet file has it. */
export function fleetFile(one: Shape & Pick<Policy, 'placement'>): PlannedFleet {
  const groups = groupsOf(one);
  const roleset = { prefill: one.prefill / groups, decode: one.decode / groups };
  return { rolesets: Array.from({ length: groups }, () => roleset) };
}

/** `base`: the options that all candidates have in common. */
export function optionsOf(one: Candidate, base: ClusterOptions): ClusterOptions {
  const fleet: FleetFile = fleetFileSchema.parse(fleetFile(one));
  const { nixl } = base.connector;
  const { storeBytes } = one;
  const connector = storeBytes === null ? withoutStore(base.connector) : base.connector;
  return {
    ...base,
    store: base.store && storeBytes !== null ? { ...base.store, bytes: storeBytes } : null,
    fleet: fleetOf({ fleet, prefill: 1, decode: 1 }),
    placement: one.placement,
    routing: one.routing,
    mode: one.mode,
    connector: { ...connector, nixl: { ...nixl, recomputeThreshold: one.threshold } },
  };
}

/** Without a store, engines pull only from each other. */
const withoutStore = (connector: ConnectorConfig): ConnectorConfig =>
  usesStore(connector) ? { ...connector, name: 'NixlConnector' } : connector;

/** All splits of this many engines into P and D, fewest P first. */
export function splitsOf(engines: number): Shape[] {
  const least = Math.max(1, engines - MOST_REAL_ENGINES);
  const most = Math.min(engines - 1, MOST_REAL_ENGINES);
  return Array.from({ length: most - least + 1 }, (_, i) => ({
    prefill: least + i,
    decode: engines - least - i,
  }));
}

/** Splits near a shape: as many P, or up to `reach` more or fewer; if there are none, the nearest. */
export function splitsNear({ prefill }: Shape, engines: number, reach: number): Shape[] {
  const away = (split: Shape): number => Math.abs(split.prefill - prefill);
  const splits = splitsOf(engines);
  const nearest = Math.max(reach, Math.min(...splits.map(away)));
  return splits.filter((split) => away(split) <= nearest);
}
