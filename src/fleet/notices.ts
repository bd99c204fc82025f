/** What a cluster reports of its engines and turns. */
import type { CacheEvent } from '../engine/cache-event.ts';
import type { EngineEvent } from '../host/engine-report.ts';
import type { EngineRole } from '../router/engine-client.ts';
import type { TurnNotice } from '../router/router.ts';
import type { RequestNotice } from '../router/turn-attempts.ts';
import type { FailedTurn, TurnResult } from '../router/turn-types.ts';
import type { MembershipNotice } from './scale-report.ts';

interface OfEngine {
  engineId: string;
  role: EngineRole;
}

/** One engine's changes since its last batch, in order. */
export interface CacheEventBatch {
  engineId: string;
  events: readonly CacheEvent[];
  /** In milliseconds on the shared clock. */
  atMs: number;
}

export type ClusterNotice =
  | ({ kind: 'turn' } & TurnNotice)
  | { kind: 'turn ended'; result: TurnResult }
  | ({ kind: 'turn failed' } & FailedTurn)
  | ({ kind: 'request' } & RequestNotice)
  /** A request by which an engine takes over a leaving engine's hold for the conversation's next turn. */
  | { kind: 'moves'; conversationId: string; requestId: string }
  | ({ kind: 'engine'; event: EngineEvent } & OfEngine)
  /** `replaces`: id of the engine whose seat it takes; null for an engine in a new seat. */
  | ({ kind: 'alive'; replaces: string | null } & OfEngine)
  /** An engine that was not leaving ended; a leaving one is 'left'. `reason`: the message without the engine's name. */
  | ({ kind: 'dead'; message: string; reason: string } & OfEngine)
  | MembershipNotice
  /** A problem of the store, in one line; serving continues. */
  | { kind: 'store'; message: string };
