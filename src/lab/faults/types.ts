/** The results of fault testing, for tables, --json and tests. */
import type { FaultKind } from '../../faults/schedule.ts';

/** How a turn ended. */
export type TurnOutcome = 'right' | 'error' | 'left';

/** What must never happen, whatever the faults. */
export type ViolationKind =
  | 'wrong tokens'
  | 'untyped error'
  | 'caller hangs'
  | 'blocks held'
  | 'request parked'
  | 'books wrong'
  | 'memory grew'
  | 'cannot go on';

export interface Violation {
  kind: ViolationKind;
  detail: string;
  /** `--faults 1 --seed SEED` repeats the episode. */
  seed: number;
  /**
   * The fewest faults of its schedule that broke it again, numbered from 1; null: not searched, none could be omitted, or
   * with fewer it broke in another way.
   */
  picks: readonly number[] | null;
  /** The episode's faults, in order; if it was shrunk, only those of `picks`. */
  faults: readonly string[];
}

export interface FaultTally {
  kind: FaultKind;
  times: number;
  /** Outcomes of the turns in progress during these faults. */
  turns: Record<TurnOutcome, number>;
  /** Violations in episodes with this fault. */
  violations: number;
}

export interface FaultReport {
  seed: number;
  /** The number of P and of D. */
  pairs: number;
  faults: number;
  episodes: number;
  /** All turns, including those during which no fault happened. */
  turns: Record<TurnOutcome, number>;
  /** Errors that callers received, by code. */
  errors: Readonly<Record<string, number>>;
  enginesReplaced: number;
  tallies: readonly FaultTally[];
  violations: readonly Violation[];
  ok: boolean;
}
