/** A machine that several engines compute on: each is slower the more do at once, P and D by what was seen of each. */
import type { EngineRole } from '../router/engine-client.ts';
import type { Timer, VirtualClock } from './clock.ts';

export type RoleSpeeds = Readonly<Record<EngineRole, readonly number[]>>;

interface Work {
  role: EngineRole;
  /** Milliseconds of an engine alone. */
  leftMs: number;
  whenDone: () => void;
}

export class SharedMachine {
  readonly #clock: VirtualClock;
  readonly #speeds: RoleSpeeds;
  readonly #works = new Set<Work>();
  #sinceMs = 0;
  #timer: Timer | null = null;

  /** `speeds`: of an engine while 1, 2, … compute, as a share of one alone; beyond the last as at the last. */
  constructor(clock: VirtualClock, speeds: RoleSpeeds) {
    this.#clock = clock;
    this.#speeds = speeds;
  }

  /** `ms`: of an engine alone. Calls back when it is done; cancel() gives it up. */
  begin(ms: number, role: EngineRole, whenDone: () => void): { cancel(): void } {
    this.#advance();
    const work: Work = { role, leftMs: ms, whenDone };
    this.#works.add(work);
    this.#arm();
    return {
      cancel: () => {
        if (!this.#works.has(work)) return;
        this.#advance();
        this.#works.delete(work);
        this.#arm();
      },
    };
  }

  #speed(role: EngineRole): number {
    const speeds = this.#speeds[role];
    return speeds[Math.min(this.#works.size, speeds.length) - 1]!;
  }

  #advance(): void {
    const now = this.#clock.now();
    for (const work of this.#works) work.leftMs -= (now - this.#sinceMs) * this.#speed(work.role);
    this.#sinceMs = now;
  }

  #arm(): void {
    if (this.#timer) this.#clock.cancel(this.#timer);
    this.#timer = null;
    let next: Work | null = null;
    let nextMs = Number.POSITIVE_INFINITY;
    for (const work of this.#works) {
      const ms = Math.max(0, work.leftMs) / this.#speed(work.role);
      if (ms < nextMs) [next, nextMs] = [work, ms];
    }
    if (next) this.#timer = this.#clock.after(nextMs, () => this.#end(next));
  }

  #end(work: Work): void {
    this.#timer = null;
    this.#advance();
    this.#works.delete(work);
    this.#arm();
    work.whenDone();
  }
}
