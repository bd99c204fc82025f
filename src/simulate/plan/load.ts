/** The load of a planned fleet: the first requests of a workload, at a given mean rate. */

import { sumOf } from '../../sum.ts';
import type { TraceTokens } from '../../workload/traces/tokens.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { type Arriving, poissonArrivals } from '../load/load.ts';
import { lastComesMs } from '../load/trace-load.ts';
import type { Load } from '../run.ts';

export interface PlannedLoad {
  /** Most requests of a sample. */
  requests: number;
  /** The workload's own rate, requests a second; null: it has none. */
  ownRate: number | null;
  /**
   * The first `requests` requests, at `perSecond` requests a second. Conversations that arrive are kept whole, so there
   * may be a few more.
   */
  sample(requests: number, perSecond: number, draws: Draws): Load;
}

/** The draws of a sample's arrivals, and which of them count. */
export interface Draws {
  seed: number;
  seeds: number;
  /** Share of the arrival time after which requests count. */
  countsFrom: number;
  /** A trace's requests come at even gaps; absent: at its times. */
  evenly?: boolean;
}

export interface ConversationLoad extends PlannedLoad {
  /** Number of conversations in such a sample, and how many a second are drawn on average. */
  arrivalsOf(requests: number, perSecond: number, draws: Draws): { count: number; perSecond: number };
}

const turnsOf = (conversations: readonly BenchConversation[]): number =>
  sumOf(conversations, ({ turns }) => turns.length);

/**
 * Conversations that arrive with exponential gaps: the same draws at every rate, stretched as a whole. The mean of some
 * hundred draws may be a tenth off, so they are stretched until exactly `perSecond` turns a second arrive in the time
 * that counts, if answers take none: the mean over all seeds, whose draws are stretched alike.
 */
export function conversationLoad(
  conversations: readonly BenchConversation[],
  thinkMs: number,
): ConversationLoad {
  const turnsEach = turnsOf(conversations) / conversations.length;
  const arrivalsOf: ConversationLoad['arrivalsOf'] = (requests, perSecond, { seed, seeds, countsFrom }) => {
    const count = Math.min(conversations.length, Math.ceil(requests / turnsEach));
    const counted = Array.from({ length: seeds }, (_, i) =>
      countedOf([...poissonArrivals(conversations, { perSecond: 1, count, seed: seed + i })], countsFrom),
    );
    const seconds = sumOf(counted, (each) => each.seconds);
    return { count, perSecond: (perSecond * seconds) / sumOf(counted, ({ turns }) => turns) };
  };
  return {
    requests: turnsOf(conversations),
    ownRate: null,
    arrivalsOf,
    sample(...asked) {
      const drawn = arrivalsOf(...asked);
      const arrivals = (seed: number) => poissonArrivals(conversations, { ...drawn, seed });
      return { kind: 'arrivals', arrivals, thinkMs };
    },
  };
}

/** The time that counts, and the turns that arrive in it if answers take none. */
function countedOf(arrived: readonly Arriving[], countsFrom: number): { seconds: number; turns: number } {
  const lastMs = arrived.at(-1)!.atMs;
  const within = arrived.filter(({ atMs }) => atMs >= countsFrom * lastMs);
  const before = within.slice(0, -1).map(({ conversation }) => conversation);
  // The time ends as the last conversation arrives, so only its first turn is within.
  return { seconds: ((1 - countsFrom) * lastMs) / 1000, turns: turnsOf(before) + 1 };
}

/** A trace's turns at their times, stretched as a whole, or at even gaps. */
export function traceLoad(turns: readonly TraceTurn[], tokens: TraceTokens): PlannedLoad {
  const ownRate = rateOf(turns);
  return {
    requests: turns.length,
    ownRate,
    sample(requests, perSecond, { evenly }) {
      const faster = ownRate === null ? 1 : perSecond / ownRate;
      const gapMs = evenly ? 1000 / perSecond : null;
      const some = turns.slice(0, requests).map((turn, i) => ({
        ...turn,
        arrival:
          gapMs !== null && turn.arrival.kind === 'at'
            ? { kind: 'at' as const, ms: gapMs * (i + 1) }
            : sped(turn.arrival, faster),
      }));
      return { kind: 'trace', turns: some, tokens };
    },
  };
}

function sped(arrival: TraceTurn['arrival'], faster: number): TraceTurn['arrival'] {
  return arrival.kind === 'at'
    ? { kind: 'at', ms: arrival.ms / faster }
    : { ...arrival, thinkMs: arrival.thinkMs / faster };
}

/** Requests a second on average, if no answer takes any time; null if all arrive at once. */
export function rateOf(turns: readonly TraceTurn[]): number | null {
  const overMs = lastComesMs(turns);
  return overMs > 0 ? (1000 * turns.length) / overMs : null;
}
