/** What a storm of faults did: for tables, for --json and for tests. */
import type { FaultKind } from '../../faults/schedule.ts';

/** How a turn ended that was under way when something happened. */
export type TurnOutcome = 'right' | 'error' | 'left';

/** What may never be, whatever happens. */
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
  /** `--faults 1 --seed` with this repeats the episode. */
  seed: number;
  /** The fewest faults of its schedule that broke it again, numbered from 1 on; null: nobody looked. */
  picks: readonly number[] | null;
  /** What happened in the episode, in order; of the fewest, where they were looked for. */
  faults: readonly string[];
}

export interface FaultTally {
  kind: FaultKind;
  times: number;
  /** Turns that were under way, by how they ended. */
  turns: Record<TurnOutcome, number>;
  /** In episodes with this fault. */
  violations: number;
}

export interface FaultReport {
  seed: number;
  faults: number;
  episodes: number;
  /** All turns, those that no fault met included. */
  turns: Record<TurnOutcome, number>;
  /** Errors that callers got, by code. */
  errors: Readonly<Record<string, number>>;
  enginesReplaced: number;
  tallies: readonly FaultTally[];
  violations: readonly Violation[];
  ok: boolean;
}
