/** What is told of engines that come and go. */
import type { EngineRole } from '../router/engine-client.ts';
import type { DrainReport } from '../router/scaling/drain.ts';

export interface FleetMember {
  engineId: string;
  role: EngineRole;
  /** Of its seat: whoever takes its place has the same. */
  name: string;
}

/** Milliseconds from its thread's beginning to its readiness; loading and compiling, side by side, are parts of it. */
export interface Joined extends FleetMember {
  startMs: number;
  loadMs: number;
  compileMs: number;
}

export type Left = FleetMember & DrainReport;

export interface ScaleReport {
  joined: readonly Joined[];
  left: readonly Left[];
}

export type MembershipNotice =
  | ({ kind: 'joined' } & Joined)
  /** It gets no more turns. */
  | ({ kind: 'leaving' } & FleetMember)
  | ({ kind: 'left' } & Left)
  /** Others have taken the places of those that ended, or could not. */
  | { kind: 'revived' };
