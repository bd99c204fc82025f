/** The state of each real engine, requested from its thread, and its busy share, from its spans. */
import { type Occupancy, occupancyOf } from '../../../../src/engine/inspect/occupancy.ts';
import { EngineDeadError, messageOf } from '../../../../src/errors.ts';
import type { ThreadEngine } from '../../../../src/fleet/thread-engine.ts';
import type { EngineBlocks } from '../../../../src/host/engine-report.ts';
import type { Span } from '../../../../src/measure/spans/spans.ts';
import { type LiveEngine, MOST_CELLS } from '../../../../src/simulate/live/view.ts';

/** `blocks` is null for an engine that has ended. */
export interface EngineSnapshot {
  engine: LiveEngine;
  blocks: EngineBlocks | null;
}

export class EngineSnapshots {
  /** By engine: milliseconds of kernel time since the last snapshot. */
  readonly #busyMs = new Map<string, number>();
  readonly #lastMs = new Map<string, number>();

  addSpan({ name, engineId, startMs, endMs }: Span): void {
    if (name === 'forward' && engineId !== null)
      this.#busyMs.set(engineId, (this.#busyMs.get(engineId) ?? 0) + endMs - startMs);
  }

  /** Rejects with errors that the engine's end does not explain. */
  async of(engine: ThreadEngine, stays: boolean, nowMs: number): Promise<EngineSnapshot> {
    try {
      if (!engine.ended) return await this.#living(engine, stays, nowMs);
    } catch (error) {
      if (!engine.ended && !(error instanceof EngineDeadError)) throw error;
    }
    // The thread may know of its end before the fleet does. The fleet replaces only engines that it knows to have ended.
    return { engine: endedEngine(engine), blocks: null };
  }

  async #living(engine: ThreadEngine, stays: boolean, nowMs: number): Promise<EngineSnapshot> {
    const { engineId, role, inspection } = engine;
    const [blocks, stats] = await Promise.all([inspection.blocks(), inspection.stats()]);
    const { running, waiting, waitingForRemote: loading, freeBlocks } = stats;
    const current: LiveEngine = {
      ...{ engineId, role, why: null, running, waiting, loading, freeBlocks },
      state: stays ? 'serving' : 'leaving',
      numBlocks: usable(blocks),
      busy: this.#busyShare(engineId, nowMs),
      pool: poolOf(blocks),
    };
    return { engine: current, blocks };
  }

  #busyShare(engineId: string, nowMs: number): number {
    const passedMs = nowMs - (this.#lastMs.get(engineId) ?? 0);
    const busyMs = this.#busyMs.get(engineId) ?? 0;
    this.#lastMs.set(engineId, nowMs);
    this.#busyMs.set(engineId, 0);
    return passedMs > 0 ? Math.min(1, busyMs / passedMs) : 0;
  }
}

function endedEngine({ engineId, role, ended }: ThreadEngine): LiveEngine {
  const nothing = { running: 0, waiting: 0, loading: 0, freeBlocks: 0, numBlocks: 0, busy: 0, pool: null };
  if (!ended) return { engineId, role, state: 'leaving', why: null, ...nothing };
  return { engineId, role, state: 'ended', why: messageOf(ended), ...nothing };
}

/** Without the null block. */
const usable = ({ numBlocks }: EngineBlocks): number => numBlocks - 1;

function poolOf(blocks: EngineBlocks): Occupancy {
  const facts = new Map(blocks.facts.map((fact) => [fact.id, fact]));
  return occupancyOf(usable(blocks), MOST_CELLS, (id) => {
    const fact = facts.get(id);
    if (!fact) return null;
    if (fact.use !== 'left') return fact.use === 'held' ? 'held' : 'used';
    return fact.hash === null ? null : 'cached';
  });
}
