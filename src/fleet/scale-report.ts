/** What is reported of engines that join and leave. */
import { plural } from '../measure/format.ts';
import { type RawSpan, routerSpan } from '../measure/spans/spans.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { DrainReport } from '../router/scaling/drain.ts';
import { sumOf } from '../sum.ts';

export interface FleetMember {
  engineId: string;
  role: EngineRole;
  /** The seat's name, which a replacement keeps. */
  name: string;
}

/**
 * startMs: milliseconds from its thread's start to readiness. Loading and compiling run in parallel and are parts of
 * it.
 */
export interface Joined extends FleetMember {
  startMs: number;
  loadMs: number;
  compileMs: number;
}

/** `ended`: why the engine ended although it was still needed, or before it was to leave; null: it did not. */
export type Left = FleetMember & DrainReport & { ended: string | null };

export interface ScaleReport {
  joined: readonly Joined[];
  left: readonly Left[];
}

/** A span for timelines. `why`: who asked for the change, and on what grounds. */
export function scaleSpan(
  startMs: number,
  endMs: number,
  { joined, left }: ScaleReport,
  why: string,
): RawSpan {
  const lostTokens = sumOf(left, ({ lost }) => lost.tokens);
  const migratedTokens = sumOf(left, ({ migrated }) => migrated.tokens);
  return routerSpan('scale', 'fleet', startMs, endMs, {
    why,
    joined: joined.map(({ engineId, startMs: ms }) => `${engineId} in ${Math.round(ms)} ms`).join(', '),
    left: left.map(({ engineId, ms }) => `${engineId} after ${Math.round(ms)} ms`).join(', '),
    migratedTokens,
    lostTokens,
  });
}

/** How an engine left, in words. */
export const howItLeft = ({ ms, ended }: Pick<Left, 'ms' | 'ended'>): string =>
  `after ${Math.round(ms)} ms${ended === null ? '' : `, since it ended: ${ended}`}`;

/** The loss in words; null: nothing was lost. For requests of other clients the number of tokens is unknown. */
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
  /** Replacing the engines that ended is done, or has failed. */
  | { kind: 'revived' };
