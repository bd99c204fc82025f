/** What a cluster tells of its engines and turns. */
import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineEvent } from '../host/engine-report.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { RequestNotice, TurnNotice } from '../router/router.ts';
import type { TurnResult } from '../router/turn-types.ts';
import type { MembershipNotice } from './scale-report.ts';

interface OfEngine {
  engineId: string;
  role: EngineRole;
}

/** One engine's changes since its last batch, in order. */
export interface CacheEventBatch {
  engineId: string;
  events: readonly CacheEvent[];
  /** On the shared clock, milliseconds. */
  atMs: number;
}

export type ClusterNotice =
  | ({ kind: 'turn' } & TurnNotice)
  | { kind: 'turn ended'; result: TurnResult }
  | ({ kind: 'request' } & RequestNotice)
  /** A request by which an engine takes over what a leaving one holds for the conversation's next turn. */
  | { kind: 'moves'; conversationId: string; requestId: string }
  | ({ kind: 'engine'; event: EngineEvent } & OfEngine)
  /** `replaces`: whose place it takes; null for one of the first. */
  | ({ kind: 'alive'; replaces: string | null } & OfEngine)
  /** Not of one that was on its way out: that one is 'left'. `reason`: the message without the engine's name. */
  | ({ kind: 'dead'; message: string; reason: string } & OfEngine)
  | MembershipNotice
  /** Something is wrong with the store; all goes on. One line. */
  | { kind: 'store'; message: string };
