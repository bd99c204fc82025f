/** What is shown of a watched fleet, simulated or real: plain data, which crosses threads. All times are since its beginning, milliseconds. */
import type { BlockFact } from '../../engine/inspect/block-facts.ts';
import type { Occupancy } from '../../engine/inspect/occupancy.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { Medium } from '../costs/types.ts';
import type { FleetEvent } from '../fleet-event.ts';
import type { LatencyPoint } from './latency.ts';

/** Cells of a pool's picture at most. */
export const MOST_CELLS = 256;

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

/** What lies in a block, and of which turn's tokens it is; null: that is not remembered. Deadlines are since the beginning. */
export interface LiveBlock extends BlockFact {
  conversationId: string | null;
  turn: number | null;
  /** Of what was copied: from a store, from an engine, or from either; null: that is not known. */
  from: 'store' | 'engine' | 'either' | null;
}

/** Of the engine that is looked into. */
export interface LiveBlocks {
  engineId: string;
  /** The null block included. */
  numBlocks: number;
  /** By id; those that were never used are missing. */
  blocks: readonly LiveBlock[];
}

/** Below a store's memory. Counts in blocks. */
export interface LiveTier {
  medium: Medium;
  blocks: number;
  /** null: nobody says. */
  room: number | null;
  read: number;
  written: number;
  /** Not written: it did not keep up. */
  leftOut: number;
}

/** Blocks that an engine saved, or loaded. */
export interface StoreMove {
  /** From 1 on, in the order in which they ended. */
  number: number;
  atMs: number;
  engineId: string;
  loads: boolean;
  blocks: number;
}

/** What lies in a store, and where. Counts in blocks. */
export interface StoreContent {
  /** That there is room for, and those that are there or on their way. */
  slots: number;
  blocks: number;
  /** used: being read or written. cached: there for who asks. */
  pool: Occupancy;
  /** Asked for, and found. */
  lookups: number;
  hits: number;
  evicted: number;
  /** Nearest first. */
  tiers: readonly LiveTier[];
}

export interface LiveStore extends StoreContent {
  /** Since the beginning, by the engines' role. */
  moved: Readonly<Record<EngineRole, { saved: number; loaded: number }>>;
  /** The last ones, oldest first. */
  moves: readonly StoreMove[];
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
  /** null: none is looked into, or it is gone. */
  opened: LiveBlocks | null;
  /** null: there is none. */
  store: LiveStore | null;
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
