/**
 * The two halves of a transfer without the protocol: copies blocks from the device to the slab, or from the slab to the device,
 * one chunk after another, without overlap within a half. A baseline for measuring transfers; not used to serve.
 */
import { copyBytes } from '../copy-bytes.ts';
import type { BlockId, Clock } from '../engine/types.ts';
import type { BlockMemory } from './types.ts';

/** 'out' (the holder's half): device to mapped memory to slab. 'in' (the reader's half): slab to mapped memory to device. */
export type CopyHalf = 'out' | 'in';

export interface HandCopyPlan {
  half: CopyHalf;
  /** Holds slots of one chunk each, used in turn as in a transfer: later chunks overwrite earlier ones. */
  slab: SharedArrayBuffer;
  /** Blocks of group 0. */
  blockIds: readonly BlockId[];
  /** Rounded down to whole blocks, at least one. */
  chunkBytes: number;
  copies: number;
  /**
   * To run both halves concurrently: two Int32 that count the copies done by 'out' and by 'in'. Both plans must have the same
   * `copies`. A half that is done continues until the other is done or has failed. null: run alone.
   */
  progress: SharedArrayBuffer | null;
}

/** One copy of all blocks; times in ms, on the engine's clock. */
export interface HandCopy {
  startMs: number;
  endMs: number;
  /** Device to mapped memory, or mapped memory to device. */
  deviceMs: number;
  /** Mapped memory to slab, or slab to mapped memory. */
  slabMs: number;
}

/** Copies all blocks `plan.copies` times or more. Rejects if the memory does. */
export async function copyByHand(memory: BlockMemory, plan: HandCopyPlan, clock: Clock): Promise<HandCopy[]> {
  const done = plan.progress && new Int32Array(plan.progress);
  const [own, other] = plan.half === 'out' ? [0, 1] : [1, 0];
  const copies: HandCopy[] = [];
  try {
    do {
      copies.push(await copyOnce(memory, plan, clock));
      if (done) Atomics.add(done, own!, 1);
    } while (copies.length < plan.copies || (done && Atomics.load(done, other!) < plan.copies));
  } catch (error) {
    // Otherwise the other half would never stop.
    if (done) Atomics.store(done, own!, plan.copies);
    throw error;
  }
  return copies;
}

async function copyOnce(memory: BlockMemory, plan: HandCopyPlan, clock: Clock): Promise<HandCopy> {
  const copyChunk = plan.half === 'out' ? chunkOut : chunkIn;
  const startMs = clock.now();
  let deviceMs = 0;
  let slabMs = 0;
  for (const chunk of chunks(memory, plan)) {
    const begunMs = clock.now();
    const ms = await copyChunk(memory, chunk, clock);
    slabMs += ms;
    deviceMs += clock.now() - begunMs - ms;
  }
  return { startMs, endMs: clock.now(), deviceMs, slabMs };
}

/** The copies that lie entirely within the time in which the other half ran. */
export function overlappingCopies(copies: readonly HandCopy[], others: readonly HandCopy[]): HandCopy[] {
  const from = others[0]?.startMs ?? Number.POSITIVE_INFINITY;
  const until = others.at(-1)?.endMs ?? 0;
  return copies.filter(({ startMs, endMs }) => startMs >= from && endMs <= until);
}

interface Chunk {
  ids: readonly BlockId[];
  inSlab: Uint8Array;
}

/** Returns the time spent copying between mapped memory and slab, ms. So does chunkIn. */
async function chunkOut(memory: BlockMemory, { ids, inSlab }: Chunk, clock: Clock): Promise<number> {
  const gathered = await memory.gather(0, ids);
  const mappedMs = clock.now();
  copyBytes(inSlab, gathered.bytes);
  const copiedMs = clock.now();
  gathered.release();
  return copiedMs - mappedMs;
}

async function chunkIn(memory: BlockMemory, { ids, inSlab }: Chunk, clock: Clock): Promise<number> {
  const staged = await memory.stage(inSlab.byteLength);
  const mappedMs = clock.now();
  copyBytes(staged.bytes, inSlab);
  const copiedMs = clock.now();
  await staged.commit(0, ids);
  return copiedMs - mappedMs;
}

function* chunks(memory: BlockMemory, { blockIds, chunkBytes, slab }: HandCopyPlan): Generator<Chunk> {
  const blockBytes = memory.blockBytes[0]!;
  const perChunk = Math.max(1, Math.floor(chunkBytes / blockBytes));
  const slotBytes = perChunk * blockBytes;
  const slots = Math.floor(slab.byteLength / slotBytes);
  for (let i = 0; i * perChunk < blockIds.length; i++) {
    const ids = blockIds.slice(i * perChunk, (i + 1) * perChunk);
    yield { ids, inSlab: new Uint8Array(slab, (i % slots) * slotBytes, ids.length * blockBytes) };
  }
}
