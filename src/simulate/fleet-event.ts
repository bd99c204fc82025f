/** Events of a fleet's membership, simulated or real. */
import type { ClusterNotice } from '../fleet/notices.ts';
import { howItLeft, type MembershipNotice } from '../fleet/scale-report.ts';
import { formatCount } from '../measure/format.ts';
import type { EngineRole } from '../router/engine-client.ts';

/** A change of the membership, or a decision about it. */
export interface FleetEvent {
  atMs: number;
  event: 'decided' | 'joined' | 'leaving' | 'left' | 'died' | 'failed';
  /** null: the event concerns no single engine. */
  engineId: string | null;
  role: EngineRole | null;
  /** For people, shown next to the engine's name. */
  detail: string;
}

export const deathEvent = (
  { engineId, role, reason }: Extract<ClusterNotice, { kind: 'dead' }>,
  atMs: number,
): FleetEvent => ({ atMs, event: 'died', engineId, role, detail: reason });

/** Returns null for a notice that is no event. */
export function memberEvent(notice: MembershipNotice, atMs: number): FleetEvent | null {
  if (notice.kind === 'revived') return null;
  const { kind: event, engineId, role } = notice;
  return { atMs, event, engineId, role, detail: detailOf(notice) };
}

function detailOf(notice: Exclude<MembershipNotice, { kind: 'revived' }>): string {
  switch (notice.kind) {
    case 'joined':
      return `after ${Math.round(notice.startMs)} ms`;
    case 'leaving':
      return '';
    case 'left': {
      const { migrated, lost } = notice;
      return `${howItLeft(notice)}; ${formatCount(migrated.tokens)} tokens of KV taken over, ${formatCount(lost.tokens)} lost`;
    }
  }
}
