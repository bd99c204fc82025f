import { describe, expect, it } from 'vitest';
import {
  copyByHand,
  type HandCopy,
  type HandCopyPlan,
  overlappingCopies,
} from '../../src/transport/by-hand.ts';
import { realClock, TestMemory } from './helpers.ts';

const BLOCK = 96;
const ids = [3, 4, 9, 1, 17];

const plan = (more: Partial<HandCopyPlan> & Pick<HandCopyPlan, 'half'>): HandCopyPlan => ({
  slab: new SharedArrayBuffer(ids.length * BLOCK),
  blockIds: ids,
  chunkBytes: 2 * BLOCK,
  copies: 1,
  progress: null,
  ...more,
});

describe('a transfer without the protocol', () => {
  it('copies blocks into the slab and out of it, one chunk at a time', async () => {
    const from = new TestMemory({ blockBytes: [BLOCK] }).fillRandom(7);
    const to = new TestMemory({ blockBytes: [BLOCK] });
    const slab = new SharedArrayBuffer(6 * BLOCK);
    const out = await copyByHand(from, plan({ half: 'out', slab }), realClock);
    const back = await copyByHand(to, plan({ half: 'in', slab }), realClock);
    for (const id of ids) expect(to.block(0, id)).toEqual(from.block(0, id));
    expect([from.gathers, from.mostGathersInFlight, to.commits]).toEqual([3, 1, 3]);
    expect([from.gathersInFlight, to.stagesInFlight]).toEqual([0, 0]);
    for (const [copy] of [out, back]) {
      const took = copy!.endMs - copy!.startMs;
      expect(copy!.deviceMs + copy!.slabMs).toBeLessThanOrEqual(took + 0.01);
    }
  });

  it('runs both halves until each has made the requested number of copies', async () => {
    const delay = () => new Promise<void>((resolve) => setImmediate(resolve));
    const slow = () => new Promise<void>((resolve) => setTimeout(resolve, 1));
    const from = new TestMemory({ blockBytes: [BLOCK], delay });
    const to = new TestMemory({ blockBytes: [BLOCK], delay: slow });
    const progress = new SharedArrayBuffer(8);
    const slab = new SharedArrayBuffer(4 * BLOCK);
    const [out, back] = await Promise.all([
      copyByHand(from, plan({ half: 'out', slab, progress, copies: 3 }), realClock),
      copyByHand(to, plan({ half: 'in', slab, progress, copies: 3 }), realClock),
    ]);
    expect([...new Int32Array(progress)]).toEqual([out.length, back.length]);
    expect(back.length).toBe(3);
    expect(out.length).toBeGreaterThan(3);
  });

  it('ends when one half fails, once the other has made its own copies', async () => {
    const delay = () => new Promise<void>((resolve) => setImmediate(resolve));
    const from = new TestMemory({ blockBytes: [BLOCK], delay });
    const to = new TestMemory({ blockBytes: [BLOCK], delay });
    from.onGather = () => {
      throw new Error('the device is gone');
    };
    const progress = new SharedArrayBuffer(8);
    const [out, back] = await Promise.allSettled([
      copyByHand(from, plan({ half: 'out', progress, copies: 3 }), realClock),
      copyByHand(to, plan({ half: 'in', progress, copies: 3 }), realClock),
    ]);
    expect(out.status).toBe('rejected');
    expect(back).toMatchObject({ status: 'fulfilled', value: { length: 3 } });
  });

  it('counts only copies that were made entirely while the other half ran', () => {
    const copy = (startMs: number, endMs: number): HandCopy => ({ startMs, endMs, deviceMs: 1, slabMs: 1 });
    const out = [copy(0, 2), copy(2, 4), copy(4, 6)];
    const back = [copy(1, 5)];
    expect(overlappingCopies(out, back)).toEqual([copy(2, 4)]);
    expect(overlappingCopies(back, out)).toEqual(back);
    expect(overlappingCopies(out, [])).toEqual([]);
  });

  it('fails with the error of the memory', async () => {
    const memory = new TestMemory({ blockBytes: [BLOCK] });
    memory.onGather = () => {
      throw new Error('the device is gone');
    };
    await expect(copyByHand(memory, plan({ half: 'out' }), realClock)).rejects.toThrow('the device is gone');
  });
});
