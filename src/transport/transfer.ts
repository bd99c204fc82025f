/** The reader's record of one READ: what was requested, what has arrived, and how it ended. Moves no bytes. */
import type { TransferOutcome } from '../engine/kv-connector.ts';
import type { BlockId } from '../engine/types.ts';
import { withResolvers } from './handshake.ts';
import type { ChunkMessage } from './messages.ts';
import type { ReadRequest, TransferResult, TransferStages } from './types.ts';

export function noStages(): TransferStages {
  return {
    handshakeMs: 0,
    waitMs: 0,
    gatherMs: 0,
    readbackMs: 0,
    slabInMs: 0,
    linkMs: 0,
    slabOutMs: 0,
    uploadMs: 0,
    scatterMs: 0,
    notifyMs: 0,
  };
}

/** The result of a transfer that ended before it started. */
export function emptyResult(outcome: TransferOutcome, message: string, wallMs: number): TransferResult {
  return {
    outcome,
    message,
    bytes: 0,
    blocks: 0,
    chunks: 0,
    descriptors: 0,
    wallMs,
    movingMs: null,
    postMs: 0,
    stages: noStages(),
  };
}

export class Transfer {
  readonly transferId: string;
  readonly request: ReadRequest;
  readonly remoteIds: readonly (readonly BlockId[])[];
  /** Resolves when nothing of this transfer can write into local blocks any more. Never rejects. */
  readonly result: Promise<TransferResult>;
  readonly stages: TransferStages = noStages();
  bytes = 0;
  postMs = 0;
  /** Number of messages received about it. */
  news = 0;

  readonly #localIds: readonly (readonly BlockId[])[];
  readonly #resolve: (result: TransferResult) => void;
  readonly #now: () => number;
  readonly #startedAt: number;
  readonly #received = new Set<number>();
  /** For a streamed READ: intervals in which bytes of its chunks were moving. */
  readonly #moving: [startMs: number, endMs: number][] = [];
  #blocks = 0;
  #descriptors = 0;
  #chunksInWork = 0;
  #allPosted = false;
  #end: { outcome: TransferOutcome; message: string } | null = null;
  #lost = false;

  constructor(
    transferId: string,
    request: ReadRequest,
    groups: number,
    startedAt: number,
    now: () => number,
  ) {
    this.transferId = transferId;
    this.request = request;
    this.#startedAt = startedAt;
    this.#now = now;
    const byGroup = Array.from({ length: groups }, (_, g) => request.pairs.filter((p) => p.group === g));
    this.remoteIds = byGroup.map((pairs) => pairs.map((p) => p.remote));
    this.#localIds = byGroup.map((pairs) => pairs.map((p) => p.local));
    const { promise, resolve } = withResolvers<TransferResult>();
    this.result = promise;
    this.#resolve = resolve;
  }

  /** The outcome is decided. The result may still wait for pending copies. */
  get ended(): boolean {
    return this.#end !== null;
  }

  /** It is waiting for the holder, not only for local work. */
  get awaitsHolder(): boolean {
    return this.#end === null && !this.#allPosted;
  }

  /** It ended because messages were lost, so the READ may be repeated. */
  get lost(): boolean {
    return this.#lost;
  }

  /** Ends it as failed because an expected message did not arrive. */
  lose(message: string): void {
    if (this.#end === null) this.#lost = true;
    this.end('failed', message);
  }

  /** Decides the outcome. Only the first call counts. */
  end(outcome: TransferOutcome, message: string): void {
    this.#end ??= { outcome, message };
    this.#settle();
  }

  /** The holder has posted all chunks. */
  allPosted(): void {
    this.#allPosted = true;
    this.#settle();
  }

  /**
   * The local blocks for a chunk's bytes, or why the chunk is invalid; 'seen' for a duplicate. After a chunk is accepted,
   * chunkDone() must be called for it.
   */
  takeChunk(
    chunk: ChunkMessage,
    blockBytes: readonly number[],
  ): { localIds: readonly BlockId[] } | { wrong: string } | 'seen' {
    const { index, group, first, count, byteLength } = chunk;
    const localIds = this.#localIds[group]?.slice(first, first + count) ?? [];
    if (localIds.length !== count || count < 1) {
      return { wrong: `chunk ${index} names blocks ${first} to ${first + count - 1} of group ${group}` };
    }
    if (byteLength !== count * blockBytes[group]!) {
      return {
        wrong: `chunk ${index} has ${byteLength} bytes for ${count} block(s) of ${blockBytes[group]}`,
      };
    }
    if (this.#received.has(index)) return 'seen';
    this.#received.add(index);
    this.#chunksInWork += 1;
    return { localIds };
  }

  /** The chunk's blocks are on the device (`committed`), or the chunk was abandoned. */
  chunkDone(chunk: ChunkMessage, committed: boolean): void {
    this.#chunksInWork -= 1;
    if (committed) {
      this.#blocks += chunk.count;
      this.#descriptors += chunk.descriptors;
      const { waitStart, gatherStart, submitted, readbackStart, mapped, slabInStart, slabInEnd, link } =
        chunk.times;
      if (this.request.streamed) this.#moving.push([gatherStart, submitted], [readbackStart, this.#now()]);
      if (chunk.index === 0) this.stages.waitMs += gatherStart - waitStart + (readbackStart - submitted);
      this.stages.gatherMs += submitted - gatherStart;
      this.stages.readbackMs += mapped - readbackStart;
      this.stages.slabInMs += slabInEnd - slabInStart;
      if (link) this.stages.linkMs += link.arrival - link.start;
    }
    this.#settle();
  }

  #settle(): void {
    if (this.#chunksInWork > 0) return;
    if (this.#end === null && this.#allPosted) {
      const expected = this.request.pairs.length;
      this.#lost = this.#blocks !== expected;
      this.#end = this.#lost
        ? { outcome: 'failed', message: `the holder sent ${this.#blocks} of ${expected} blocks.` }
        : { outcome: 'done', message: '' };
    }
    if (this.#end === null) return;
    this.#resolve({
      ...this.#end,
      bytes: this.bytes,
      blocks: this.#blocks,
      chunks: this.#received.size,
      descriptors: this.#descriptors,
      wallMs: this.#now() - this.#startedAt,
      movingMs: this.request.streamed ? coveredMs(this.#moving) : null,
      postMs: this.postMs,
      stages: this.stages,
    });
  }
}

/** Total length of the union of the intervals, ms. */
export function coveredMs(intervals: readonly (readonly [startMs: number, endMs: number])[]): number {
  let covered = 0;
  let until = Number.NEGATIVE_INFINITY;
  for (const [startMs, endMs] of intervals.toSorted(([a], [b]) => a - b)) {
    covered += Math.max(0, endMs - Math.max(startMs, until));
    until = Math.max(until, endMs);
  }
  return covered;
}
