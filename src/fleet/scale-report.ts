/** What is told of engines that come and go. */
import { plural } from '../measure/format.ts';
import { type RawSpan, routerSpan } from '../measure/spans.ts';
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

/** For timelines. `why`: who asked for it, and on what grounds. */
export function scaleSpan(
  startMs: number,
  endMs: number,
  { joined, left }: ScaleReport,
  why: string,
): RawSpan {
  const lostTokens = left.reduce((sum, { lost }) => sum + lost.tokens, 0);
  const migratedTokens = left.reduce((sum, { migrated }) => sum + migrated.tokens, 0);
  return routerSpan('scale', 'fleet', startMs, endMs, {
    why,
    joined: joined.map(({ engineId, startMs: ms }) => `${engineId} in ${Math.round(ms)} ms`).join(', '),
    left: left.map(({ engineId, ms }) => `${engineId} after ${Math.round(ms)} ms`).join(', '),
    migratedTokens,
    lostTokens,
  });
}

/** In words; null: nothing. Of requests that others sent it is not known how many tokens they have. */
export function whatIsLost({ holds, tokens }: DrainReport['lost']): string | null {
  if (holds === 0) return null;
  return tokens > 0
    ? `KV of ${plural(tokens, 'token')} that it held is lost`
    : `KV that it held of ${plural(holds, 'request')} is lost`;
}

export type MembershipNotice =
  | ({ kind: 'joined' } & Joined)
  /** It gets no more turns. */
  | ({ kind: 'leaving' } & FleetMember)
  | ({ kind: 'left' } & Left)
  /** Others have taken the places of those that ended, or could not. */
  | { kind: 'revived' };
