/**
 * What the router knows of its engines: updated from their reports, and shown to policies with the age that `ageMs`
 * sets. Creating views asks no engine anything.
 */

import type { TokenIds } from '../config/token-ids.ts';
import type { CacheEvent } from '../engine/cache-event.ts';
import { type EngineLoad, faded } from '../engine/inspect/engine-load.ts';
import type { EngineClient } from './engine-client.ts';
import type { EngineView } from './plan.ts';
import type { PrefixIndex } from './prefix-index.ts';
import type { TurnsByEngine } from './turns-by-engine.ts';

/** Bound on cache events that wait to reach their age. Beyond it the oldest are applied early. */
const MOST_PENDING = 65_536;

export type ViewedEngine = Pick<
  EngineClient,
  'engineId' | 'role' | 'roleset' | 'combined' | 'ended' | 'load'
>;

interface CacheUpdate {
  engineId: string;
  atMs: number;
  events: readonly CacheEvent[];
}

export class EngineViews {
  readonly #index: PrefixIndex;
  readonly #ageMs: () => number;
  /** Reports by engine, oldest first; views show the first. */
  readonly #loads = new Map<string, EngineLoad[]>();
  /** The views shown last, in the order of the engines. */
  readonly #lastViews: { engine: ViewedEngine; view: EngineView }[] = [];
  /** Cache events that are not yet old enough, oldest first. */
  readonly #pending: CacheUpdate[] = [];

  /** `ageMs`: how old a report must be before views show it, in milliseconds; 0: at once. */
  constructor(index: PrefixIndex, ageMs: () => number) {
    this.#index = index;
    this.#ageMs = ageMs;
  }

  load(engineId: string, load: EngineLoad): void {
    const loads = this.#loads.get(engineId) ?? [];
    loads.push(load);
    this.#loads.set(engineId, loads);
    this.#drop(loads, load.atMs - this.#ageMs());
  }

  cached(update: CacheUpdate): void {
    this.#pending.push(update);
    this.#applyPending(update.atMs);
  }

  /** Call when the engine is gone; its replacement has another id. */
  forget(engineId: string): void {
    this.#loads.delete(engineId);
    const others = this.#pending.filter((update) => update.engineId !== engineId);
    this.#pending.splice(0, this.#pending.length, ...others);
    this.#index.forget(engineId);
  }

  /**
   * Views at nowMs. An engine's view object is reused while nothing about it has changed. `coming`: turns to count as in
   * flight at an engine that has not got them yet; absent: none.
   */
  of(engines: readonly ViewedEngine[], nowMs: number, coming: TurnsByEngine | null = null): EngineView[] {
    const views: EngineView[] = [];
    for (let i = 0; i < engines.length; i++) {
      const engine = engines[i]!;
      const inFlight = engine.load.inFlight + (coming?.at(engine.engineId) ?? 0);
      views.push(this.#view(engine, i, nowMs, inFlight));
    }
    this.#lastViews.length = engines.length;
    return views;
  }

  #view(engine: ViewedEngine, i: number, nowMs: number, inFlight: number): EngineView {
    const known = this.#lastViews[i];
    const ended = engine.ended !== null;
    const signals = this.#loads.size > 0 ? this.#signals(engine.engineId, nowMs - this.#ageMs()) : null;
    if (
      known?.engine === engine &&
      known.view.ended === ended &&
      known.view.inFlight === inFlight &&
      known.view.signals === signals
    )
      return known.view;
    const { engineId, role, roleset, combined = false } = engine;
    const view: EngineView = { engineId, role, combined, ended, inFlight, signals };
    if (roleset !== undefined) view.roleset = roleset;
    this.#lastViews[i] = { engine, view };
    return view;
  }

  /** Returns a function that gives the leading tokens an engine has. The lookup is done once, at its first call. */
  cachedTokens(tokenIds: TokenIds, cacheSalt: string | null, nowMs: number): (engineId: string) => number {
    let found: ReadonlyMap<string, number> | null = null;
    return (engineId) => {
      if (!found) {
        this.#applyPending(nowMs);
        found = this.#index.match(tokenIds, cacheSalt);
      }
      return found.get(engineId) ?? 0;
    };
  }

  #signals(engineId: string, untilMs: number): EngineLoad | null {
    const loads = this.#loads.get(engineId);
    if (!loads) return null;
    this.#drop(loads, untilMs);
    const load = loads[0]!;
    // With age 0, a report may be stamped later than the request, by another thread's clock.
    if (this.#ageMs() > 0 && load.atMs > untilMs) return null;
    const idle = load.running + load.waiting + load.waitingForRemote === 0;
    // An idle engine sends no reports, but its rates continue to fall.
    return idle ? faded(load, untilMs - load.atMs) : load;
  }

  /** Keeps the newest report that is old enough, and all that are not yet. */
  #drop(loads: EngineLoad[], untilMs: number): void {
    while (loads.length > 1 && (this.#ageMs() === 0 || loads[1]!.atMs <= untilMs)) loads.shift();
  }

  #applyPending(nowMs: number): void {
    const untilMs = nowMs - this.#ageMs();
    const due = this.#ageMs() === 0 ? -1 : this.#pending.findIndex(({ atMs }) => atMs > untilMs);
    const count = due < 0 ? this.#pending.length : Math.max(due, this.#pending.length - MOST_PENDING);
    for (const { engineId, events } of this.#pending.splice(0, count)) this.#index.update(engineId, events);
  }
}
