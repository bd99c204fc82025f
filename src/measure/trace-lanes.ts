/**
 * Lanes of a trace as processes and threads. A trace viewer wants what stands on one thread to be apart or nested, so a
 * lane takes as many threads as its spans need.
 */
import { ROUTER_LANE } from './spans.ts';

export interface TracePlace {
  pid: number;
  tid: number;
}

interface Interval {
  startMs: number;
  endMs: number;
}

interface Thread {
  tid: number;
  /** The last ones placed, in the order in which they came. */
  recent: Interval[];
  /** Until when there may be spans that are no longer among the recent ones. */
  forgottenMs: number;
}

/** Spans come almost in order of time: so many are looked back at. */
const LOOK_BACK = 256;

export class TraceLanes {
  readonly #announce: (event: Readonly<Record<string, unknown>>) => void;
  readonly #pids = new Map<string, number>();
  readonly #lanes = new Map<string, { pid: number; threads: Thread[] }>();
  #lastTid = 0;

  /** `announce` gets the events that name processes and threads. */
  constructor(announce: (event: Readonly<Record<string, unknown>>) => void) {
    this.#announce = announce;
  }

  /** `clock`: for the thread's name, the first time. */
  place(laneName: string, clock: string, interval: Interval): TracePlace {
    let lane = this.#lanes.get(laneName);
    if (!lane) {
      lane = { pid: this.pid(processOf(laneName)), threads: [] };
      this.#lanes.set(laneName, lane);
    }
    let thread = lane.threads.find((each) => fits(each, interval));
    if (!thread) {
      thread = { tid: ++this.#lastTid, recent: [], forgottenMs: Number.NEGATIVE_INFINITY };
      lane.threads.push(thread);
      const more = lane.threads.length > 1 ? ` (${lane.threads.length})` : '';
      const { pid } = lane;
      const name = `${laneName}${more}, ${clock} clock`;
      this.#announce({ ph: 'M', name: 'thread_name', pid, tid: thread.tid, args: { name } });
    }
    thread.recent.push(interval);
    if (thread.recent.length > LOOK_BACK) {
      const { endMs } = thread.recent.shift()!;
      thread.forgottenMs = Math.max(thread.forgottenMs, endMs);
    }
    return { pid: lane.pid, tid: thread.tid };
  }

  pid(process: string): number {
    let pid = this.#pids.get(process);
    if (pid === undefined) {
      pid = this.#pids.size + 1;
      this.#pids.set(process, pid);
      this.#announce({ ph: 'M', name: 'process_name', pid, tid: 0, args: { name: process } });
      const order = process === ROUTER_LANE ? 0 : pid;
      this.#announce({ ph: 'M', name: 'process_sort_index', pid, tid: 0, args: { sort_index: order } });
    }
    return pid;
  }
}

/** An engine's lanes stand together, and so do the links. */
export const processOf = (lane: string): string => {
  if (lane === ROUTER_LANE) return ROUTER_LANE;
  return lane.startsWith('link ') ? 'links' : lane.replace(/ (gpu|host)$/, '');
};

function fits({ recent, forgottenMs }: Thread, { startMs, endMs }: Interval): boolean {
  if (startMs < forgottenMs) return false;
  return recent.every((other) => {
    const apart = endMs <= other.startMs || other.endMs <= startMs;
    const nested =
      (other.startMs <= startMs && endMs <= other.endMs) ||
      (startMs <= other.startMs && other.endMs <= endMs);
    return apart || nested;
  });
}
