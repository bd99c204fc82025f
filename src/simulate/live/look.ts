/** What is shown of a watched fleet: plain data, which crosses threads. All times are of the virtual clock, milliseconds. */
import type { Occupancy } from '../../engine/inspect/occupancy.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { FleetEvent } from '../fleet-event.ts';
import type { LatencyPoint } from './latency.ts';

/** leaving: it gets no more turns. ended: it died, and its place is empty. */
export type LiveEngineState = 'serving' | 'leaving' | 'ended';

export interface LiveEngine {
  engineId: string;
  role: EngineRole;
  state: LiveEngineState;
  /** Why it ended; null while it has not. */
  why: string | null;
  running: number;
  waiting: number;
  /** Requests that wait for KV on its way. */
  loading: number;
  freeBlocks: number;
  numBlocks: number;
  /** Share of the time since the last look in which it computed. */
  busy: number;
  /** null once it ended. */
  pool: Occupancy | null;
}

export interface LiveDecision {
  turnId: string;
  conversationId: string;
  turn: number;
  promptTokens: number;
  routed: RoutedTurn;
  /** null until the answer ended. */
  ttftMs: number | null;
}

/** A switch by hand, beside what happened to engines. */
export interface LiveEvent extends Pick<FleetEvent, 'atMs' | 'detail'> {
  event: FleetEvent['event'] | 'routing' | 'load' | 'autoscaler';
  engineId: string | null;
}

export interface LiveLook {
  nowMs: number;
  engines: readonly LiveEngine[];
  /** The last ones, oldest first. */
  decisions: readonly LiveDecision[];
  /** Of the last minutes. */
  latency: readonly LatencyPoint[];
  /** The last ones, oldest first. */
  events: readonly LiveEvent[];
  requests: { answered: number; failed: number; underWay: number };
  /** Conversations that were turned away since too many were under way. */
  turnedAway: number;
  /** Engines are being started or are leaving. */
  scaling: boolean;
  routing: string;
  /** Tokens of KV that were held for next turns and lost with an engine. */
  lostTokens: number;
}

/** One thing of a turn's way over the fleet. */
export interface PathPiece {
  name: string;
  /** 'router', an engine and 'host', or a link. */
  lane: string;
  /** Of its stage; 'decode' of what follows the first token. */
  group: string;
  startMs: number;
  endMs: number;
  bytes: number | null;
}

/** A turn's way over all engines; times from its acceptance on. */
export interface TurnPath {
  decision: LiveDecision;
  /** null: it has not ended, or failed. */
  latencyMs: number | null;
  pieces: readonly PathPiece[];
}
