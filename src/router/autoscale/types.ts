/**
 * How many engines a role should have: controllers fed with what engines tell, at whatever clock drives them. They start and
 * stop nothing. One file a rule.
 */
import type { EngineRole } from '../engine-client.ts';

/** Of one role, at one tick. */
export interface RoleLoad {
  /** Engines that serve, and those among them that are not warm yet or told nothing. */
  engines: number;
  /** The metric that the rule goes by, of each engine that told it. */
  values: readonly number[];
}

/** What came and went since the last tick: for rules that go by service levels. */
export interface ServedLoad {
  requests: number;
  meanInputTokens: number;
  meanOutputTokens: number;
  ttftMs: number;
  /** 0: every answer was a single token. */
  itlMs: number;
}

export interface FleetLoad {
  nowMs: number;
  prefill: RoleLoad;
  decode: RoleLoad;
  /** null: nothing was served since the last tick. */
  served: ServedLoad | null;
  /** A change is under way, such as a start that takes its time: what is decided now is not done. */
  changing: boolean;
}

/** Both included. */
export interface Bounds {
  min: number;
  max: number;
}

export interface ScaleDecision {
  /** Engines that the role should have. */
  want: number;
  /** One sentence's worth, for people. */
  why: string;
}

export interface Autoscaler {
  /** Called at every tick, in time's order: it remembers what it saw. */
  decide(load: FleetLoad): Readonly<Record<EngineRole, ScaleDecision>>;
}

/** A rule for one role by itself. */
export interface RoleScaler {
  decide(nowMs: number, load: RoleLoad, changing: boolean): ScaleDecision;
}

export const eachRole = (scalers: Readonly<Record<EngineRole, RoleScaler>>): Autoscaler => ({
  decide: ({ nowMs, prefill, decode, changing }) => ({
    prefill: scalers.prefill.decide(nowMs, prefill, changing),
    decode: scalers.decode.decide(nowMs, decode, changing),
  }),
});

/** `want` within [least, most], told in `why` where that changed it. */
export function within(least: number, most: number, { want, why }: ScaleDecision): ScaleDecision {
  const bounded = Math.min(most, Math.max(least, want));
  if (bounded === want) return { want, why };
  return { want: bounded, why: `${why}; ${want < least ? `at least ${least}` : `at most ${most}`}` };
}
