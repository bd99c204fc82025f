import { describe, expect, it } from 'vitest';
import type { TransferView } from '../../../demo/src/session/types.ts';
import { centre } from '../../../demo/src/views/geometry.ts';
import { Afterglow, FAINT, GLOW_MS } from '../../../demo/src/views/stage/afterglow.ts';
import { Flights, pointOnWay, progressOf } from '../../../demo/src/views/stage/flights.ts';
import { SlabMeter } from '../../../demo/src/views/stage/slab-meter.ts';
import { block } from './fixture.ts';

const transfer = (change: Partial<TransferView> = {}): TransferView => ({
  requestId: 'r',
  from: 'decode-0',
  to: 'prefill-0',
  side: 'prefill',
  bytes: 100,
  bytesDone: 0,
  startMs: 1000,
  endMs: null,
  outcome: null,
  message: '',
  stagesMs: {},
  throttled: false,
  chunks: null,
  movingMs: null,
  pairs: [
    [1, 5],
    [2, 6],
  ],
  ...change,
});
const done = transfer({ endMs: 1014, bytesDone: 100, outcome: 'done' });

describe('animated copies', () => {
  it('show a fast copy for about a second, then land it', () => {
    const flights = new Flights();
    expect(flights.advance([done], 1020, 16)).toBe(true);
    expect([...flights.awaited('prefill')]).toEqual([5, 6]);
    expect(flights.awaited('decode').size).toBe(0);
    flights.advance([done], 1500, 500);
    expect(flights.all).toHaveLength(1);
    expect(flights.advance([done], 3000, 1500)).toBe(false);
    expect(flights.awaited('prefill').size).toBe(0);
  });

  it('never show a slow copy ahead of its bytes', () => {
    const flights = new Flights();
    flights.advance([transfer({ bytesDone: 50 })], 1100, 60_000);
    expect(flights.all[0]!.shown).toBeLessThan(0.6);
    expect(progressOf(flights.all[0]!, 1)).toBeLessThan(1);
  });

  it('show each copy once, and none that ended long ago', () => {
    const flights = new Flights();
    const departed: string[] = [];
    const note = ({ key }: { key: string }) => departed.push(key);
    flights.advance([done], 1020, 16, note);
    flights.advance([done], 9000, 9000, note);
    expect(flights.advance([done], 9100, 16, note)).toBe(false);
    expect(departed).toHaveLength(1);
    expect(new Flights().advance([done], 60_000, 16)).toBe(false);
  });

  it('show each chunk of a streamed copy as it arrives', () => {
    const flights = new Flights();
    const departed: number[][] = [];
    const note = ({ pairs }: { pairs: readonly (readonly [number, number])[] }) =>
      departed.push(pairs.map(([from]) => from));
    const begun = transfer({ side: 'decode', pairs: [], chunks: [] });
    expect(flights.advance([begun], 1000, 16, note)).toBe(false);
    const first = { ...begun, pairs: [[1, 5]] as const, chunks: [[[1, 5]]] as const };
    flights.advance([first], 1100, 16, note);
    expect([...flights.awaited('decode')]).toEqual([5]);
    const ended = {
      ...begun,
      endMs: 1300,
      outcome: 'done',
      pairs: [...first.pairs, [2, 6] as const],
      chunks: [...first.chunks, [[2, 6]] as const],
    };
    flights.advance([ended], 1300, 300, note);
    expect([...flights.awaited('decode')]).toEqual([5, 6]);
    expect(flights.advance([ended], 9000, 9000, note)).toBe(false);
    expect(departed).toEqual([[1], [2]]);
    expect(new Flights().advance([ended], 9000, 16)).toBe(false);
  });

  it('move from cell to slab to cell', () => {
    const box = (x: number) => ({ x, y: x / 10, width: 10, height: 10 });
    const [from, over, to] = [box(0), box(100), box(200)] as const;
    expect(pointOnWay(from, over, to, 0)).toEqual(centre(from));
    expect(pointOnWay(from, over, to, 0.5)).toEqual(centre(over));
    expect(pointOnWay(from, over, to, 1)).toEqual(centre(to));
  });
});

describe('the afterglow of a freed block', () => {
  const used = block(5, { state: 'pulled', origin: 'pulled' });
  const free = block(5, { state: 'free', origin: null, conversation: null, turn: null, text: null });

  it('fades and stays faint', () => {
    const glow = new Afterglow();
    glow.advance([used], new Set(), 0);
    expect(glow.of(used, 0)).toBeNull();
    glow.advance([free], new Set(), 100);
    expect(glow.of(free, 100)).toMatchObject({ block: { state: 'pulled' } });
    expect(glow.of(free, GLOW_MS / 2)!.fade).toBeCloseTo(0.5);
    expect(glow.of(free, 10 * GLOW_MS)!.fade).toBe(FAINT);
  });

  it('comes from the copy if the block itself was freed too quickly to be seen', () => {
    const glow = new Afterglow();
    glow.expect(5, block(2, { text: 'from D', heldFor: 'prefill' }), 0);
    glow.advance([free], new Set([5]), 900);
    expect(glow.of(free, 900)).toMatchObject({ fade: 1, block: { id: 5, text: 'from D', heldFor: null } });
  });

  it('appears once the copy has landed, even if the block is still shown as arriving', () => {
    const glow = new Afterglow();
    const waiting = block(5, { state: 'arriving', origin: null });
    glow.advance([used], new Set(), 0);
    glow.advance([waiting], new Set(), 10);
    expect(glow.of(waiting, 10)).toBeNull();
    glow.expect(5, block(2, { text: 'from D' }), 20);
    glow.advance([waiting], new Set([5]), 30);
    expect(glow.of(waiting, 40)).toMatchObject({
      fade: 1,
      block: { id: 5, text: 'from D', state: 'pulled' },
    });
    glow.advance([used], new Set(), 50);
    glow.advance([waiting], new Set(), 60);
    expect(glow.of(waiting, 60)).toBeNull();
  });

  it('disappears with an eviction and with clear()', () => {
    const glow = new Afterglow();
    glow.advance([used], new Set(), 0);
    glow.advance([{ ...free, state: 'evicted' }], new Set(), 10);
    expect(glow.of(free, 20)).toBeNull();
    glow.advance([used], new Set(), 30);
    glow.clear();
    expect(glow.of(free, 40)).toBeNull();
  });

  it('after a jump back in time has no later content, and blocks that were already free are faint', () => {
    const glow = new Afterglow();
    const freed = block(6, { state: 'free' });
    glow.advance([used, freed], new Set(), 0);
    glow.clear();
    glow.advance([free, freed], new Set(), 10);
    expect(glow.of(free, 10)).toBeNull();
    expect(glow.of(freed, 10)!.fade).toBe(FAINT);
  });
});

describe('the slab’s meter', () => {
  it('rises at once and falls slowly, never below what is in use', () => {
    const meter = new SlabMeter();
    meter.advance({ slotsInUse: 4, slots: 4, slotBytes: 1 }, 16);
    expect(meter.shown).toBe(4);
    expect(meter.advance({ slotsInUse: 1, slots: 4, slotBytes: 1 }, 225)).toBe(true);
    expect(meter.shown).toBeCloseTo(3);
    expect(meter.advance({ slotsInUse: 1, slots: 4, slotBytes: 1 }, 5000)).toBe(false);
    expect(meter.shown).toBe(1);
  });
});
