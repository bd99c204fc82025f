/** What a planned fleet is asked: the first so many requests of a workload, so many a second on average. */
import type { TraceTokens } from '../../workload/traces/tokens.ts';
import type { TraceTurn } from '../../workload/traces/types.ts';
import type { BenchConversation } from '../../workload/types.ts';
import { poissonArrivals } from '../load.ts';
import type { Load } from '../run.ts';
import { lastComesMs } from '../trace-load.ts';

export interface PlannedLoad {
  /** There are no more than that. */
  requests: number;
  /** Requests a second that it has of itself; null: none. */
  ownRate: number | null;
  /** Whole conversations where they come by themselves: a few more than asked for, maybe. */
  sample(requests: number, perSecond: number): Load;
}

const turnsOf = (conversations: readonly BenchConversation[]): number =>
  conversations.reduce((sum, { turns }) => sum + turns.length, 0);

/** Conversations that come with exponential gaps: the same draws at every rate. */
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

/** A trace's turns at their times, all of them stretched alike. */
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

/** Requests a second until the last one that waits for no other; null where all come at once. */
export function rateOf(turns: readonly TraceTurn[]): number | null {
  const overMs = lastComesMs(turns);
  return overMs > 0 ? (1000 * turns.length) / overMs : null;
}

/** When each would come if no answer took any time. */
export function soonestMs(turns: readonly TraceTurn[]): number[] {
  const byIndex = new Map<number, number>();
  return turns.map(({ index, arrival }) => {
    const ms = arrival.kind === 'at' ? arrival.ms : (byIndex.get(arrival.index) ?? 0) + arrival.thinkMs;
    byIndex.set(index, ms);
    return ms;
  });
}
