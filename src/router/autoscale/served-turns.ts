/** Measured turn times, for rules that use SLOs: of the fleet since the last tick, and of each engine in a window. */

import { sum } from '../../sum.ts';
import type { TurnResult } from '../turn-types.ts';
import type { ServedLoad } from './types.ts';
import { TimeWindow } from './window.ts';

/** Dynamo's load loop looks at the last interval. */
const WINDOW_SECONDS = 5;

export class ServedTurns {
  #since: TurnResult[] = [];
  /** By engine, in milliseconds: TTFT where it prefilled, time between tokens where it decoded. */
  readonly #ttft = new Map<string, TimeWindow>();
  readonly #itl = new Map<string, TimeWindow>();

  add(result: TurnResult, atMs: number): void {
    this.#since.push(result);
    const { routed } = result;
    if (!routed) return;
    windowOf(this.#ttft, routed.prefill ?? routed.decode).add(atMs, result.ttftMs);
    if (result.tpotMs !== null) windowOf(this.#itl, routed.decode).add(atMs, result.tpotMs);
  }

  ttftMs(engineId: string, nowMs: number): number | null {
    return this.#ttft.get(engineId)?.mean(nowMs) ?? null;
  }

  itlMs(engineId: string, nowMs: number): number | null {
    return this.#itl.get(engineId)?.mean(nowMs) ?? null;
  }

  /** The turns that have ended since the last call; null: none. */
  take(): ServedLoad | null {
    const turns = this.#since;
    this.#since = [];
    if (turns.length === 0) return null;
    const mean = (values: readonly number[]): number => sum(values) / Math.max(1, values.length);
    return {
      requests: turns.length,
      meanInputTokens: mean(turns.map(({ prompt }) => prompt.promptTokens)),
      meanOutputTokens: mean(turns.map(({ outputTokenIds }) => outputTokenIds.length)),
      ttftMs: mean(turns.map(({ ttftMs }) => ttftMs)),
      itlMs: mean(turns.flatMap(({ tpotMs }) => tpotMs ?? [])),
    };
  }

  /** Drops the times of all engines that are not in the set. */
  keep(engineIds: ReadonlySet<string>): void {
    for (const map of [this.#ttft, this.#itl])
      for (const id of map.keys()) if (!engineIds.has(id)) map.delete(id);
  }
}

function windowOf(map: Map<string, TimeWindow>, engineId: string): TimeWindow {
  const window = map.get(engineId) ?? new TimeWindow(WINDOW_SECONDS);
  map.set(engineId, window);
  return window;
}
