/**
 * What is shown of a watched fleet, simulated or real: plain data, which crosses threads. All times are milliseconds
 * since its beginning.
 */
import type { BlockFact } from '../../engine/inspect/block-facts.ts';
import type { Occupancy } from '../../engine/inspect/occupancy.ts';
import type { RoutedTurn } from '../../router/decision.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { Medium } from '../costs/types.ts';
import type { FleetEvent } from '../fleet-event.ts';
import type { LatencyPoint } from './latency.ts';

/** Most cells of a pool's picture. */
export const MOST_CELLS = 256;

/** leaving: it gets no more turns. ended: it died, and its seat is empty. */
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
  /** null once it has ended. */
  pool: Occupancy | null;
}

/** What a block holds, and which turn its tokens belong to; null: unknown. Deadlines are since the beginning. */
export interface LiveBlock extends BlockFact {
  conversationId: string | null;
  turn: number | null;
  /** Where a copied block came from: a store, an engine, or either; null: unknown. */
  from: 'store' | 'engine' | 'either' | null;
}

/** Blocks of the engine that is looked into. */
export interface LiveBlocks {
  engineId: string;
  /** The null block included. */
  numBlocks: number;
  /** By id; blocks that were never used are missing. */
  blocks: readonly LiveBlock[];
}

/** A tier below a store's memory. Counts in blocks. */
export interface LiveTier {
  medium: Medium;
  blocks: number;
  /** null: unknown. */
  room: number | null;
  read: number;
  written: number;
  /** Not written, because the tier did not keep up. */
  leftOut: number;
}

/** Blocks that an engine saved, or loaded. */
export interface StoreMove {
  /** Number of the move, from 1 on, by when it ended. */
  number: number;
  atMs: number;
  engineId: string;
  loads: boolean;
  blocks: number;
}

/** What a store holds, and where. Counts in blocks. */
export interface StoreContent {
  /** Blocks that there is room for, and those that are there or on their way. */
  slots: number;
  blocks: number;
  /** used: being read or written. cached: available. */
  pool: Occupancy;
  /** Blocks looked up, and found. */
  lookups: number;
  hits: number;
  evicted: number;
  /** Tiers below its memory, nearest first. */
  tiers: readonly LiveTier[];
}

export interface LiveStore extends StoreContent {
  /** Blocks moved since the beginning, by the engines' role. */
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

/** Something that happened to engines, or a switch by hand. */
export interface LiveEvent extends Pick<FleetEvent, 'atMs' | 'detail'> {
  event: FleetEvent['event'] | 'routing' | 'load' | 'autoscaler';
  engineId: string | null;
}

export interface LiveLook {
  nowMs: number;
  engines: readonly LiveEngine[];
  /** null: no engine is looked into, or it is gone. */
  opened: LiveBlocks | null;
  /** null: there is no store. */
  store: LiveStore | null;
  /** The last ones, oldest first. */
  decisions: readonly LiveDecision[];
  /** Points of the last minutes. */
  latency: readonly LatencyPoint[];
  /** The last ones, oldest first. */
  events: readonly LiveEvent[];
  requests: { answered: number; failed: number; underWay: number };
  /** Conversations that were turned away because too many were under way. */
  turnedAway: number;
  /** Whether engines are being started or are leaving. */
  scaling: boolean;
  routing: string;
}

/** One piece of a turn's way through the fleet. */
export interface PathPiece {
  name: string;
  /** 'router', an engine and 'host', or a link. */
  lane: string;
  /** Group of its stage; 'decode' for what follows the first token. */
  group: string;
  startMs: number;
  endMs: number;
  bytes: number | null;
}

/** A turn's way through all engines; times from its acceptance on. */
export interface TurnPath {
  decision: LiveDecision;
  /** null: it has not ended, or failed. */
  latencyMs: number | null;
  pieces: readonly PathPiece[];
}
