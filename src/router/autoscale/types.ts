/**
 * The autoscalers' interface. An autoscaler decides how many engines a role should have, from what engines report. It
 * has no clock, and starts and stops nothing. One rule per file.
 */
import type { EngineRole } from '../engine-client.ts';

/** One role's load at one tick. */
export interface RoleLoad {
  /** Its engines, including those that are not warm yet, have reported nothing, or ended and are about to be replaced. */
  engines: number;
  /** The rule's metric, for each engine that reported it. */
  values: readonly number[];
}

/** The turns that ended since the last tick, for rules that use SLOs. Times in milliseconds. */
export interface ServedLoad {
  requests: number;
  meanInputTokens: number;
  meanOutputTokens: number;
  ttftMs: number;
  /** Time between tokens; 0: every answer was a single token. */
  itlMs: number;
}

export interface FleetLoad {
  nowMs: number;
  prefill: RoleLoad;
  decode: RoleLoad;
  /** null: nothing ended since the last tick. */
  served: ServedLoad | null;
  /** A change is under way, such as an engine's start. Decisions made now are not carried out. */
  changing: boolean;
}

/** Both included. */
export interface Bounds {
  min: number;
  max: number;
}

export interface ScaleDecision {
  /** Number of engines that the role should have. */
  want: number;
  /** A short reason for people to read. */
  why: string;
}

export interface Autoscaler {
  /** Called at every tick, with increasing times: it may remember what it saw. */
  decide(load: FleetLoad): Readonly<Record<EngineRole, ScaleDecision>>;
}

/** A rule for one role. */
export interface RoleScaler {
  decide(nowMs: number, load: RoleLoad, changing: boolean): ScaleDecision;
}

export const eachRole = (scalers: Readonly<Record<EngineRole, RoleScaler>>): Autoscaler => ({
  decide: ({ nowMs, prefill, decode, changing }) => ({
    prefill: scalers.prefill.decide(nowMs, prefill, changing),
    decode: scalers.decode.decide(nowMs, decode, changing),
  }),
});

/** Limits `want` to [least, most]; `why` says so if that changed it. */
export function within(least: number, most: number, { want, why }: ScaleDecision): ScaleDecision {
  const bounded = Math.min(most, Math.max(least, want));
  if (bounded === want) return { want, why };
  return { want: bounded, why: `${why}; ${want < least ? `at least ${least}` : `at most ${most}`}` };
}
