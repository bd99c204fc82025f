/** Paged blocks in plain memory, with the interface of the GPU's. Counts its users, and can be made to fail. */
import type { BlockId } from '../../src/engine/types.ts';
import { mergeRuns } from '../../src/transport/merge-runs.ts';
import type { BlockMemory, GatheredBlocks, StagedBlocks } from '../../src/transport/types.ts';

/** First come, first served, like the real staging rings. */
class Places {
  #free: number;
  readonly #waiters: (() => void)[] = [];

  constructor(free: number) {
    this.#free = free;
  }

  async take(): Promise<void> {
    if (this.#free > 0) this.#free -= 1;
    else await new Promise<void>((resolve) => this.#waiters.push(resolve));
  }

  give(): void {
    const next = this.#waiters.shift();
    if (next) next();
    else this.#free += 1;
  }
}

export interface TestMemoryOptions {
  blockBytes?: number[];
  numBlocks?: number[];
  /** Number of buffers for gathers, and of those for stages. */
  ring?: number;
  /** Awaited inside each gather and commit. */
  delay?: () => Promise<void>;
}

export class TestMemory implements BlockMemory {
  readonly blockBytes: readonly number[];
  readonly numBlocks: readonly number[];
  readonly maxStagingBytes: number;
  /** The pool, by group. */
  readonly pools: Uint8Array[];
  gathersInFlight = 0;
  mostGathersInFlight = 0;
  stagesInFlight = 0;
  gathers = 0;
  commits = 0;
  onGather: ((group: number, ids: readonly BlockId[]) => void | Promise<void>) | null = null;
  onStage: (() => void | Promise<void>) | null = null;
  onCommit: ((group: number, ids: readonly BlockId[]) => void | Promise<void>) | null = null;
  readonly #delay: () => Promise<void>;
  readonly #gatherRing: Places;
  readonly #stageRing: Places;

  constructor({ blockBytes = [96], numBlocks = [40], ring = 4, delay }: TestMemoryOptions = {}) {
    this.blockBytes = blockBytes;
    this.numBlocks = numBlocks;
    this.maxStagingBytes = 2 ** 24;
    this.pools = blockBytes.map((bytes, group) => new Uint8Array(bytes * numBlocks[group]!));
    this.#delay = delay ?? (async () => {});
    this.#gatherRing = new Places(ring);
    this.#stageRing = new Places(ring);
  }

  fillRandom(seed: number): this {
    let state = seed >>> 0 || 1;
    for (const pool of this.pools) {
      for (let i = 0; i < pool.length; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        pool[i] = state >>> 24;
      }
    }
    return this;
  }

  block(group: number, id: BlockId): Uint8Array {
    const bytes = this.blockBytes[group]!;
    return this.pools[group]!.subarray(id * bytes, (id + 1) * bytes);
  }

  /** With `revoked`, copies before any delay, as a device copies in queue order: the blocks may be reused afterwards. */
  async gather(group: number, blockIds: readonly BlockId[], revoked?: AbortSignal): Promise<GatheredBlocks> {
    await this.#gatherRing.take();
    if (revoked?.aborted) {
      this.#gatherRing.give();
      throw revoked.reason;
    }
    this.gathers += 1;
    this.gathersInFlight += 1;
    this.mostGathersInFlight = Math.max(this.mostGathersInFlight, this.gathersInFlight);
    const release = () => {
      this.gathersInFlight -= 1;
      this.#gatherRing.give();
    };
    const copy = () => {
      const bytes = new Uint8Array(blockIds.length * this.blockBytes[group]!);
      for (const [i, id] of blockIds.entries()) bytes.set(this.block(group, id), i * this.blockBytes[group]!);
      return bytes;
    };
    try {
      const copied = revoked ? copy() : null;
      await this.onGather?.(group, blockIds);
      await this.#delay();
      return {
        bytes: copied ?? copy(),
        release,
        gatherMs: 0,
        waitMs: 0,
        readbackMs: 0,
        descriptors: mergeRuns(blockIds).length,
      };
    } catch (error) {
      release();
      throw error;
    }
  }

  async stage(byteLength: number): Promise<StagedBlocks> {
    await this.#stageRing.take();
    this.stagesInFlight += 1;
    const done = () => {
      this.stagesInFlight -= 1;
      this.#stageRing.give();
    };
    try {
      await this.onStage?.();
    } catch (error) {
      done();
      throw error;
    }
    const bytes = new Uint8Array(byteLength);
    const commit = async (group: number, ids: readonly BlockId[]) => {
      try {
        await this.onCommit?.(group, ids);
        await this.#delay();
        const size = this.blockBytes[group]!;
        for (const [i, id] of ids.entries())
          this.block(group, id).set(bytes.subarray(i * size, (i + 1) * size));
        this.commits += 1;
        return { scatterMs: 0 };
      } finally {
        done();
      }
    };
    return { bytes, commit, discard: done };
  }
}
