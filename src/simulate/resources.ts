/**
 * What several want at once: shared by all that is under way (a link, in bytes; a machine's cores, in milliseconds of one alone), or
 * first come first served.
 */
import type { Timer, VirtualClock } from './clock.ts';

export interface Resource {
  /** Milliseconds in which anything was under way. */
  readonly busyMs: number;
  /** Units that were done, to their end. */
  readonly done: number;
  /** Calls back when the work is done; cancel() gives it up. */
  begin(work: number, whenDone: () => void): { cancel(): void };
}

interface Flow<Kind> {
  kind: Kind;
  work: number;
  left: number;
  whenDone: () => void;
}

/** How many of a kind are under way. */
type CountOf<Kind> = (kind: Kind) => number;

/** Units a millisecond of one of a kind, while so many flows are under way in all, and so many of each kind. */
type Rate<Kind> = (flows: number, kind: Kind, count: CountOf<Kind>) => number;

/** All that is under way gets on, at the same rate or each kind at its own. */
export class SharedResource<Kind = void> {
  done = 0;
  readonly #clock: VirtualClock;
  readonly #rate: Rate<Kind>;
  readonly #flows = new Set<Flow<Kind>>();
  readonly #counts = new Map<Kind, number>();
  #sinceMs = 0;
  #busyMs = 0;
  #timer: Timer | null = null;

  constructor(clock: VirtualClock, rate: Rate<Kind>) {
    this.#clock = clock;
    this.#rate = rate;
  }

  get busyMs(): number {
    return this.#busyMs + (this.#flows.size > 0 ? this.#clock.now() - this.#sinceMs : 0);
  }

  begin(work: number, whenDone: () => void, kind: Kind): { cancel(): void } {
    this.#advance();
    const flow: Flow<Kind> = { kind, work, left: work, whenDone };
    this.#flows.add(flow);
    this.#counts.set(kind, this.#count(kind) + 1);
    this.#arm();
    return {
      cancel: () => {
        if (!this.#flows.has(flow)) return;
        this.#leave(flow);
      },
    };
  }

  readonly #count: CountOf<Kind> = (kind) => this.#counts.get(kind) ?? 0;

  #rateOf({ kind }: Flow<Kind>): number {
    return this.#rate(this.#flows.size, kind, this.#count);
  }

  #advance(): void {
    const ms = this.#clock.now() - this.#sinceMs;
    if (this.#flows.size > 0) this.#busyMs += ms;
    for (const flow of this.#flows) flow.left -= ms * this.#rateOf(flow);
    this.#sinceMs = this.#clock.now();
  }

  #arm(): void {
    if (this.#timer) this.#clock.cancel(this.#timer);
    this.#timer = null;
    let next: Flow<Kind> | null = null;
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

  #leave(flow: Flow<Kind>): void {
    this.#advance();
    this.#flows.delete(flow);
    this.#counts.set(flow.kind, this.#count(flow.kind) - 1);
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
