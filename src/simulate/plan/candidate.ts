/** One fleet that could be: how many P and D, grouped how, routed by whom, with what pulled back. */

import { usesStore } from '../../config/connectors.ts';
import { type FleetFile, fleetFileSchema, type PlacementMode } from '../../config/fleet-schema.ts';
import type { ConnectorConfig } from '../../config/kv-transfer.ts';
import type { Mode } from '../../config/modes.ts';
import type { RoutingChoice } from '../../config/routing.ts';
import { fleetOf } from '../../fleet/seats.ts';
import type { ClusterOptions } from '../../fleet/types.ts';

/** How many of each; one at least. */
export interface Shape {
  prefill: number;
  decode: number;
}

export interface Policy {
  routing: RoutingChoice;
  mode: Mode;
  /** P's kv_recompute_threshold, tokens: of effect where KV is pulled back. */
  threshold: number;
  placement: PlacementMode;
  /** Of a store beside the engines; null: there is none. */
  storeBytes: number | null;
}

export type Candidate = Shape & Policy;

/** Of each role: what a fleet may have. */
export const MOST_OF_A_ROLE = 64;

export const enginesOf = ({ prefill, decode }: Shape): number => prefill + decode;

/** Equal for what is the same fleet under the same policy. */
export function keyOf(one: Candidate): string {
  const { prefill, decode, routing, mode, threshold, storeBytes } = one;
  const pulled = mode === 'bidirectional' ? threshold : '';
  return [prefill, decode, groupsOf(one), routing.name, mode, pulled, storeBytes ?? ''].join(' ');
}

/** One of each key, the first. */
export const distinct = (candidates: readonly Candidate[]): Candidate[] =>
  [...new Map(candidates.toReversed().map((one) => [keyOf(one), one])).values()].toReversed();

/** Rolesets, all alike: in replica mode as many as the numbers of P and D allow. */
export const groupsOf = ({ prefill, decode, placement }: Shape & Pick<Policy, 'placement'>): number =>
  placement === 'replica' ? greatestCommonDivisor(prefill, decode) : 1;

const greatestCommonDivisor = (a: number, b: number): number =>
  b === 0 ? a : greatestCommonDivisor(b, a % b);

export interface PlannedFleet {
  rolesets: { prefill: number; decode: number }[];
}

/** As a file of --fleet has it. */
export function fleetFile(one: Shape & Pick<Policy, 'placement'>): PlannedFleet {
  const groups = groupsOf(one);
  const roleset = { prefill: one.prefill / groups, decode: one.decode / groups };
  return { rolesets: Array.from({ length: groups }, () => roleset) };
}

/** `base`: all that candidates have in common. */
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

/** Engines pull from each other alone. */
const withoutStore = (connector: ConnectorConfig): ConnectorConfig =>
  usesStore(connector) ? { ...connector, name: 'NixlConnector' } : connector;

/** All ways to share so many engines out, fewest P first. */
export function splitsOf(engines: number): Shape[] {
  const least = Math.max(1, engines - MOST_OF_A_ROLE);
  const most = Math.min(engines - 1, MOST_OF_A_ROLE);
  return Array.from({ length: most - least + 1 }, (_, i) => ({
    prefill: least + i,
    decode: engines - least - i,
  }));
}

/** Those that are near one: as many P, one or `reach` more or fewer; else the nearest that there is. */
export function splitsNear({ prefill }: Shape, engines: number, reach: number): Shape[] {
  const away = (split: Shape): number => Math.abs(split.prefill - prefill);
  const splits = splitsOf(engines);
  const nearest = Math.max(reach, Math.min(...splits.map(away)));
  return splits.filter((split) => away(split) <= nearest);
}
