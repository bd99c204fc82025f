/**
 * The two halves of a transfer without its protocol: one engine copies blocks out into the slab, or from the slab in,
 * chunk after chunk, nothing overlapping within the half. What a transfer is compared with. For measurements only.
 */
import type { BlockId, Clock } from '../engine/types.ts';
import type { BlockMemory } from './types.ts';

/** 'out': device to mapped memory to slab, the holder's. 'in': slab to mapped memory to device, the reader's. */
export type CopyHalf = 'out' | 'in';

export interface HandCopyPlan {
  half: CopyHalf;
  /** Slots of a chunk each, used in turn as in a transfer: what the first chunks wrote, later ones overwrite. */
  slab: SharedArrayBuffer;
  /** Of group 0. */
  blockIds: readonly BlockId[];
  /** Whole blocks, at least one. */
  chunkBytes: number;
  copies: number;
  /**
   * Two Int32: copies made by 'out' and by 'in', whose plans name as many copies. Whoever has made them goes on until the
   * other one has, or has failed, so that both run beside each other. null: alone.
   */
  beside: SharedArrayBuffer | null;
}

/** One copy of all blocks, milliseconds on the host's clock. */
export interface HandCopy {
  startMs: number;
  endMs: number;
  /** Device to mapped memory, or mapped memory to device. */
  deviceMs: number;
  /** Mapped memory to slab, or slab to mapped memory. */
  slabMs: number;
}

/** Rejects as the memory does. */
export async function copyByHand(memory: BlockMemory, plan: HandCopyPlan, clock: Clock): Promise<HandCopy[]> {
  const made = plan.beside && new Int32Array(plan.beside);
  const [own, other] = plan.half === 'out' ? [0, 1] : [1, 0];
  const copies: HandCopy[] = [];
  try {
    do {
      copies.push(await copyOnce(memory, plan, clock));
      if (made) Atomics.add(made, own!, 1);
    } while (copies.length < plan.copies || (made && Atomics.load(made, other!) < plan.copies));
  } catch (error) {
    // The other one would go on for ever.
    if (made) Atomics.store(made, own!, plan.copies);
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

/** Those that lie within the time in which both halves ran. */
export function copiesBeside(copies: readonly HandCopy[], others: readonly HandCopy[]): HandCopy[] {
  const from = others[0]?.startMs ?? Number.POSITIVE_INFINITY;
  const until = others.at(-1)?.endMs ?? 0;
  return copies.filter(({ startMs, endMs }) => startMs >= from && endMs <= until);
}

interface Chunk {
  ids: readonly BlockId[];
  inSlab: Uint8Array;
}

/** Returns the milliseconds between mapped memory and slab; chunkIn too. */
async function chunkOut(memory: BlockMemory, { ids, inSlab }: Chunk, clock: Clock): Promise<number> {
  const gathered = await memory.gather(0, ids);
  const mappedMs = clock.now();
  inSlab.set(gathered.bytes);
  const copiedMs = clock.now();
  gathered.release();
  return copiedMs - mappedMs;
}

async function chunkIn(memory: BlockMemory, { ids, inSlab }: Chunk, clock: Clock): Promise<number> {
  const staged = await memory.stage(inSlab.byteLength);
  const mappedMs = clock.now();
  staged.bytes.set(inSlab);
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
