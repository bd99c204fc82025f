/** What several want at once: a link shared fairly, one that serves first come first. Work is in bytes. */
import type { Timer, VirtualClock } from './clock.ts';

export interface Resource {
  /** Milliseconds in which anything was under way. */
  readonly busyMs: number;
  /** Units that were done, to their end. */
  readonly done: number;
  /** Calls back when the work is done; cancel() gives it up. */
  begin(work: number, whenDone: () => void): { cancel(): void };
}

interface Flow {
  /** What each flow will have got when this one is done. */
  until: number;
  order: number;
  work: number;
  whenDone: () => void;
}

/** All that is under way gets on at the same rate. `rate`: units a millisecond of each, while there are so many. */
export class SharedResource implements Resource {
  done = 0;
  readonly #clock: VirtualClock;
  readonly #rate: (flows: number) => number;
  readonly #flows = new Set<Flow>();
  /** What each flow got since the resource was idle. */
  #attained = 0;
  #sinceMs = 0;
  #busyMs = 0;
  #order = 0;
  #timer: Timer | null = null;

  constructor(clock: VirtualClock, rate: (flows: number) => number) {
    this.#clock = clock;
    this.#rate = rate;
  }

  get busyMs(): number {
    return this.#busyMs + (this.#flows.size > 0 ? this.#clock.now() - this.#sinceMs : 0);
  }

  begin(work: number, whenDone: () => void): { cancel(): void } {
    this.#advance();
    const flow: Flow = { until: this.#attained + work, order: this.#order++, work, whenDone };
    this.#flows.add(flow);
    this.#arm();
    return {
      cancel: () => {
        if (!this.#flows.has(flow)) return;
        this.#advance();
        this.#flows.delete(flow);
        this.#arm();
      },
    };
  }

  #advance(): void {
    const now = this.#clock.now();
    const { size } = this.#flows;
    // From zero anew, so that one flow alone takes its time to the bit, whatever went before.
    if (size === 0) this.#attained = 0;
    else {
      this.#attained += (now - this.#sinceMs) * this.#rate(size);
      this.#busyMs += now - this.#sinceMs;
    }
    this.#sinceMs = now;
  }

  #arm(): void {
    if (this.#timer) this.#clock.cancel(this.#timer);
    this.#timer = null;
    const next = this.#next();
    if (!next) return;
    const leftMs = Math.max(0, next.until - this.#attained) / this.#rate(this.#flows.size);
    this.#timer = this.#clock.after(leftMs, () => this.#end(next));
  }

  #end(flow: Flow): void {
    this.#timer = null;
    this.#advance();
    this.#flows.delete(flow);
    this.done += flow.work;
    this.#arm();
    flow.whenDone();
  }

  #next(): Flow | null {
    let first: Flow | null = null;
    for (const flow of this.#flows) if (!first || flow.until < first.until) first = flow;
    return first;
  }
}

/** One after the other, each at the full rate. */
export class QueuedResource implements Resource {
  done = 0;
  readonly #clock: VirtualClock;
  readonly #rate: number;
  #freeAtMs = 0;
  #workedMs = 0;

  constructor(clock: VirtualClock, rate: number) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /** What was taken on counts as done. */
  get busyMs(): number {
    return this.#workedMs - Math.max(0, this.#freeAtMs - this.#clock.now());
  }

  /** What is cancelled has had its time on the resource all the same, as on a wire. */
  begin(work: number, whenDone: () => void): { cancel(): void } {
    const ms = work / this.#rate;
    this.#freeAtMs = Math.max(this.#clock.now(), this.#freeAtMs) + ms;
    this.#workedMs += ms;
    const timer = this.#clock.at(this.#freeAtMs, () => {
      this.done += work;
      whenDone();
    });
    return {
      cancel: () => this.#clock.cancel(timer),
    };
  }
}
