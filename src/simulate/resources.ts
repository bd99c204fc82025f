/**
 * Resources that several users want at once: shared by all that is under way (a link, in bytes; a machine's cores, in
 * milliseconds of one engine alone), or first come, first served.
 */
import type { Timer, VirtualClock } from './clock.ts';

export interface Resource {
  /** Milliseconds in which anything was under way. */
  readonly busyMs: number;
  /** Units of work that were completed. */
  readonly done: number;
  /** Calls back when the work is done; cancel() gives it up. */
  begin(work: number, whenDone: () => void): { cancel(): void };
}

interface Flow<What> {
  what: What;
  work: number;
  left: number;
  whenDone: () => void;
}

/** Number of flows of a kind that are under way. */
type CountOf = (kind: string) => number;

/** Units per millisecond of a flow, by the number of flows under way and the number of each kind. */
type Rate<What> = (flows: number, what: What, count: CountOf) => number;

/**
 * All flows proceed at once, at the same rate or each at its own, which depends on what it is and on what else is under
 * way.
 */
export class SharedResource<What = void> {
  done = 0;
  readonly #clock: VirtualClock;
  readonly #rate: Rate<What>;
  readonly #kindOf: ((what: What) => string) | null;
  readonly #flows = new Set<Flow<What>>();
  readonly #counts = new Map<string, number>();
  #sinceMs = 0;
  #busyMs = 0;
  #timer: Timer | null = null;

  /** `kindOf`: kind by which a flow is counted; null: flows are not counted. */
  constructor(clock: VirtualClock, rate: Rate<What>, kindOf: ((what: What) => string) | null = null) {
    this.#clock = clock;
    this.#rate = rate;
    this.#kindOf = kindOf;
  }

  get busy(): boolean {
    return this.#flows.size > 0;
  }

  get busyMs(): number {
    return this.#busyMs + (this.busy ? this.#clock.now() - this.#sinceMs : 0);
  }

  begin(work: number, whenDone: () => void, what: What): { cancel(): void } {
    this.#advance();
    const flow: Flow<What> = { what, work, left: work, whenDone };
    this.#flows.add(flow);
    this.#counted(flow, 1);
    this.#arm();
    return {
      cancel: () => {
        if (!this.#flows.has(flow)) return;
        this.#leave(flow);
      },
    };
  }

  #counted({ what }: Flow<What>, change: 1 | -1): void {
    if (!this.#kindOf) return;
    const kind = this.#kindOf(what);
    this.#counts.set(kind, this.count(kind) + change);
  }

  readonly count: CountOf = (kind) => this.#counts.get(kind) ?? 0;

  #rateOf({ what }: Flow<What>): number {
    return this.#rate(this.#flows.size, what, this.count);
  }

  #advance(): void {
    const ms = this.#clock.now() - this.#sinceMs;
    if (this.busy) this.#busyMs += ms;
    for (const flow of this.#flows) flow.left -= ms * this.#rateOf(flow);
    this.#sinceMs = this.#clock.now();
  }

  #arm(): void {
    if (this.#timer) this.#clock.cancel(this.#timer);
    this.#timer = null;
    let next: Flow<What> | null = null;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const flow of this.#flows) {
      const ms = Math.max(0, flow.left) / this.#rateOf(flow);
      if (ms < nextMs) [next, nextMs] = [flow, ms];
    }
    if (!next) return;
    const ending = next;
    this.#timer = this.#clock.after(nextMs, () => {
      this.#timer = null;
      this.done += ending.work;
      this.#leave(ending);
      ending.whenDone();
    });
  }

  #leave(flow: Flow<What>): void {
    this.#advance();
    this.#flows.delete(flow);
    this.#counted(flow, -1);
    this.#arm();
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

  /** Cancelled work counts too. */
  get busyMs(): number {
    return this.#workedMs - Math.max(0, this.#freeAtMs - this.#clock.now());
  }

  /** Cancelled work still takes its time on the resource, as on a wire. */
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
