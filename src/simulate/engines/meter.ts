/**
 * Records what an engine did over simulated time: how long it computed, how many requests it had, and how full its pool
 * was. Decides nothing.
 */
import { type EngineQueues, noQueues } from '../../engine/inspect/engine-load.ts';
import type { VirtualClock } from '../clock.ts';
import type { StepShape } from '../costs/types.ts';

/** A stretch of time, with averages over it. */
export interface LoadSlice {
  startMs: number;
  endMs: number;
  running: number;
  /** Requests that wait for a step, or for KV on its way. */
  waiting: number;
  /** Share of the pool, 0 to 1. */
  kvUsed: number;
  /** Share of the time, 0 to 1. */
  busy: number;
}

/** Beyond this many, slices are joined in pairs. */
const MOST_SLICES = 240;
const FIRST_SLICE_MS = 1;

interface Sums {
  runningMs: number;
  waitingMs: number;
  kvMs: number;
  busyMs: number;
}

const noSums = (): Sums => ({ runningMs: 0, waitingMs: 0, kvMs: 0, busyMs: 0 });

/** Writes its queues into an object, and returns it. */
interface Queued {
  load(into: EngineQueues): EngineQueues;
}

export class EngineMeter {
  readonly engineId: string;
  steps = 0;
  prefillTokens = 0;
  decodeTokens = 0;
  readonly startedMs: number;
  endedMs: number | null = null;
  readonly #clock: VirtualClock;
  readonly #engine: Queued;
  #sums = noSums();
  #slices: Sums[] = [];
  #sliceMs = FIRST_SLICE_MS;
  /** State seen last. Read into the same object each time: there are very many. */
  readonly #last = noQueues();
  readonly #now = noQueues();
  #lastMs: number;
  /** When counters and averages began. */
  #fromMs: number;
  #stepping = false;

  constructor(engineId: string, clock: VirtualClock, engine: Queued) {
    this.engineId = engineId;
    this.#clock = clock;
    this.#engine = engine;
    this.startedMs = clock.now();
    this.#lastMs = this.startedMs;
    this.#fromMs = this.startedMs;
    engine.load(this.#last);
  }

  /** Decode steps begin that are computed together. */
  runBegins(): void {
    this.update();
    this.#stepping = true;
  }

  /** `steps` of those were taken, with `requests` each; the first began at startMs. */
  stepsTaken(steps: number, requests: number, startMs: number): void {
    this.steps += steps;
    this.decodeTokens += steps * requests;
    // Only the KV usage changes, by whole blocks, when a step begins.
    if (this.#engine.load(this.#now).freeBlocks !== this.#last.freeBlocks) this.update(startMs);
  }

  stepBegins({ prefillTokens, decodes }: StepShape, atMs: number): void {
    this.update(atMs);
    this.#stepping = true;
    this.steps++;
    this.prefillTokens += prefillTokens;
    this.decodeTokens += decodes;
  }

  /** The step has ended, or all steps that are computed together. */
  stepEnds(): void {
    this.update();
    this.#stepping = false;
  }

  /** Counters and averages begin again, after a warm-up; slices go on. */
  restart(): void {
    this.update();
    this.steps = 0;
    this.prefillTokens = 0;
    this.decodeTokens = 0;
    this.#sums = noSums();
    this.#fromMs = this.#lastMs;
  }

  ends(): void {
    this.update();
    this.#stepping = false;
    this.endedMs = this.#clock.now();
  }

  /**
   * Call when something may have changed: the state seen last is taken to have lasted until now. Does nothing once the
   * engine has ended.
   */
  update(now: number = this.#clock.now()): void {
    if (this.endedMs !== null) return;
    // Join first: a long time without an update then fills few slices.
    while (now > this.startedMs + MOST_SLICES * this.#sliceMs) this.#join();
    for (let from = this.#lastMs; from < now; ) {
      const index = Math.min(MOST_SLICES - 1, Math.floor((from - this.startedMs) / this.#sliceMs));
      const until = Math.min(now, this.startedMs + (index + 1) * this.#sliceMs);
      // Rounding may put a slice's end at its start; the next one then takes the rest.
      this.#add(index, Math.max(0, until - from));
      from = until > from ? until : now;
    }
    this.#lastMs = Math.max(this.#lastMs, now);
    this.#engine.load(this.#last);
  }

  slices(): LoadSlice[] {
    this.update();
    return this.#slices.map((sums, index) => {
      const startMs = this.startedMs + index * this.#sliceMs;
      const endMs = Math.min(startMs + this.#sliceMs, this.#lastMs);
      const ms = Math.max(endMs - startMs, Number.MIN_VALUE);
      return {
        startMs,
        endMs,
        running: sums.runningMs / ms,
        waiting: sums.waitingMs / ms,
        kvUsed: sums.kvMs / ms,
        busy: Math.min(1, sums.busyMs / ms),
      };
    });
  }

  /** Averages over the engine's life so far, or since it was restarted; null before any time has passed. */
  mean(): Omit<LoadSlice, 'startMs' | 'endMs'> | null {
    this.update();
    const ms = this.#lastMs - this.#fromMs;
    if (ms <= 0) return null;
    const { runningMs, waitingMs, kvMs, busyMs } = this.#sums;
    return { running: runningMs / ms, waiting: waitingMs / ms, kvUsed: kvMs / ms, busy: busyMs / ms };
  }

  #add(index: number, ms: number): void {
    while (this.#slices.length <= index) this.#slices.push(noSums());
    this.#addTo(this.#slices[index]!, ms);
    this.#addTo(this.#sums, ms);
  }

  #addTo(sums: Sums, ms: number): void {
    const { running, waiting, waitingForRemote, freeBlocks, numBlocks } = this.#last;
    sums.runningMs += running * ms;
    sums.waitingMs += (waiting + waitingForRemote) * ms;
    sums.kvMs += (1 - freeBlocks / numBlocks) * ms;
    if (this.#stepping) sums.busyMs += ms;
  }

  #join(): void {
    const joined: Sums[] = [];
    this.#slices.forEach((sums, index) => {
      const into = joined[index >> 1] ?? noSums();
      joined[index >> 1] = into;
      for (const key of Object.keys(sums) as (keyof Sums)[]) into[key] += sums[key];
    });
    this.#slices = joined;
    this.#sliceMs *= 2;
  }
}
