/**
 * Maps lanes of a trace to processes and threads. Trace viewers require spans on one thread to be disjoint or nested, and of
 * those that begin at the same time the longest to be written first. A lane uses as many threads as its spans need.
 */
import { laneName, type RawSpan } from './spans.ts';

export interface TracePlace {
  pid: number;
  tid: number;
}

/** In the trace's microseconds, as they are written. */
interface Interval {
  start: number;
  end: number;
}

interface Thread {
  tid: number;
  /** The spans placed last, in order of arrival. */
  recent: Interval[];
  /** End of the latest span that is no longer in `recent`. */
  forgotten: number;
}

const ROUTER = 'router';
export const LINKS = 'links';
/** Above any number of processes: a link is seen before some engines are. */
const AFTER_ENGINES = 1_000_000;
/** Spans arrive almost in time order; this many are checked for overlap. */
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

  place(span: RawSpan, interval: Interval): TracePlace {
    const { clock } = span;
    // A link has modelled spans and host spans: a lane each, whose name says which.
    const key = `${laneName(span)}, ${clock} clock`;
    let lane = this.#lanes.get(key);
    if (!lane) {
      lane = { pid: this.pid(processOf(span)), threads: [] };
      this.#lanes.set(key, lane);
    }
    let thread = lane.threads.find((each) => fits(each, interval));
    if (!thread) {
      thread = { tid: ++this.#lastTid, recent: [], forgotten: Number.NEGATIVE_INFINITY };
      lane.threads.push(thread);
      const more = lane.threads.length > 1 ? ` (${lane.threads.length})` : '';
      const { pid } = lane;
      const args = { name: `${laneName(span)}${more}, ${clock} clock` };
      this.#announce({ ph: 'M', name: 'thread_name', pid, tid: thread.tid, args });
    }
    thread.recent.push(interval);
    if (thread.recent.length > LOOK_BACK) {
      thread.forgotten = Math.max(thread.forgotten, thread.recent.shift()!.end);
    }
    return { pid: lane.pid, tid: thread.tid };
  }

  pid(process: string): number {
    let pid = this.#pids.get(process);
    if (pid === undefined) {
      pid = this.#pids.size + 1;
      this.#pids.set(process, pid);
      this.#announce({ ph: 'M', name: 'process_name', pid, tid: 0, args: { name: process } });
      const order = process === ROUTER ? 0 : process === LINKS ? AFTER_ENGINES : pid;
      this.#announce({ ph: 'M', name: 'process_sort_index', pid, tid: 0, args: { sort_index: order } });
    }
    return pid;
  }
}

/** An engine's lanes are grouped, and so are the links. */
const processOf = ({ engineId, lane }: RawSpan): string => (lane === 'link' ? LINKS : (engineId ?? ROUTER));

function fits({ recent, forgotten }: Thread, { start, end }: Interval): boolean {
  if (start < forgotten) return false;
  return recent.every((other) => {
    const apart = end <= other.start || other.end <= start;
    const nested = (other.start <= start && end <= other.end) || (start < other.start && other.end <= end);
    return apart || nested;
  });
}
