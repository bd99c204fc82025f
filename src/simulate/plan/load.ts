/** The load of a planned fleet: the first requests of a workload, at a given mean rate. */

import { sumOf } from '../../sum.ts';
import type { TraceTokens } from '../../workload/traces/tokens.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { poissonArrivals } from '../load/load.ts';
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
  sample(requests: number, perSecond: number): Load;
}

const turnsOf = (conversations: readonly BenchConversation[]): number =>
  sumOf(conversations, ({ turns }) => turns.length);

/** Conversations that arrive with exponential gaps: the same draws at every rate. */
export function conversationLoad(conversations: readonly BenchConversation[], thinkMs: number): PlannedLoad {
  const turnsEach = turnsOf(conversations) / conversations.length;
  return {
    requests: turnsOf(conversations),
    ownRate: null,
    sample(requests, perSecond) {
      const count = Math.min(conversations.length, Math.ceil(requests / turnsEach));
      const some = conversations.slice(0, count);
      const arrivals = (seed: number) =>
        poissonArrivals(some, { perSecond: perSecond / turnsEach, count, seed });
      return { kind: 'arrivals', arrivals, thinkMs };
    },
  };
}

/** A trace's turns at their times, stretched as a whole. */
export function traceLoad(turns: readonly TraceTurn[], tokens: TraceTokens): PlannedLoad {
  const ownRate = rateOf(turns);
  return {
    requests: turns.length,
    ownRate,
    sample(requests, perSecond) {
      const faster = ownRate === null ? 1 : perSecond / ownRate;
      const some = turns.slice(0, requests).map((turn) => ({ ...turn, arrival: sped(turn.arrival, faster) }));
      return { kind: 'trace', turns: some, tokens };
    },
  };
}

function sped(arrival: TraceTurn['arrival'], faster: number): TraceTurn['arrival'] {
  return arrival.kind === 'at'
    ? { kind: 'at', ms: arrival.ms / faster }
    : { ...arrival, thinkMs: arrival.thinkMs / faster };
}

/** Requests a second up to the last one that waits for no other; null if all arrive at once. */
export function rateOf(turns: readonly TraceTurn[]): number | null {
  const overMs = lastComesMs(turns);
  return overMs > 0 ? (1000 * turns.length) / overMs : null;
}

/** When each turn would arrive if no answer took any time, ms. */
export function soonestMs(turns: readonly TraceTurn[]): number[] {
  const byIndex = new Map<number, number>();
  return turns.map(({ index, arrival }) => {
    const ms = arrival.kind === 'at' ? arrival.ms : (byIndex.get(arrival.index) ?? 0) + arrival.thinkMs;
    byIndex.set(index, ms);
    return ms;
  });
}
