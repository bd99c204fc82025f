/** READs between two engines: the bytes that arrive, counts, stage times, flow control and modelled links. */

import { describe, expect, it } from 'vitest';

import { laneName, type RawSpan } from '../../src/measure/spans/spans.ts';
import { TestClock } from '../clock.ts';

import {
  CLAIM,
  connect,
  differing,
  makeEngine,
  pairsOf,
  range,
  read,
  TestMemory,
  turns,
  withSkippedTime,
} from './helpers.ts';
import { openPair } from './pairs.ts';

describe('a READ', () => {
  it('copies the blocks byte for byte and counts what it copied', async () => {
    const { reader, holder } = openPair();
    const pairs = pairsOf([4, 5, 6, 2, 9, 10, 30], [1, 2, 3, 4, 5, 6, 7]);
    const result = await read(reader, holder, pairs);
    expect(result).toMatchObject({ outcome: 'done', message: '', blocks: 7, bytes: 7 * 96 });
    // Chunks of 256 bytes hold two blocks of 96: [4 5] [6 2] [9 10] [30].
    expect(result).toMatchObject({ chunks: 4, descriptors: 1 + 2 + 1 + 1 });
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
    expect(holder.pins).toEqual({ held: 0, finished: 1 });
  });

  it('changes no other block', async () => {
    const { reader, holder } = openPair();
    reader.memory.fillRandom(77);
    const before = reader.memory.pools[0]!.slice();
    await read(reader, holder, pairsOf([3, 8], [11, 13]));
    const changed = range(0, 40).filter((id) =>
      reader.memory.block(0, id).some((byte, i) => byte !== before[id * 96 + i]),
    );
    expect(changed).toEqual([11, 13]);
  });

  it('copies blocks of several groups with different block sizes', async () => {
    const shape = { blockBytes: [96, 40, 512], numBlocks: [20, 20, 20] };
    const { reader, holder } = openPair({
      reader: { memory: new TestMemory(shape) },
      holder: { memory: new TestMemory(shape).fillRandom(5) },
    });
    const pairs = [
      ...pairsOf([1, 2, 3], [9, 8, 7], 0),
      ...pairsOf(range(1, 9), range(5, 9), 1),
      ...pairsOf([19, 1], [1, 19], 2),
    ];
    const result = await read(reader, holder, pairs);
    expect(result).toMatchObject({ outcome: 'done', blocks: 14, bytes: 3 * 96 + 9 * 40 + 2 * 512 });
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
  });

  it('of no blocks is done without asking the holder', async () => {
    const { reader, holder } = openPair();
    expect(await read(reader, holder, [])).toMatchObject({ outcome: 'done', bytes: 0, chunks: 0 });
    expect(holder.pins.finished).toBe(0);
  });

  it('runs in both directions at once with one slot for each', async () => {
    const { reader, holder } = openPair({ slots: 1, chunkBytes: 1 });
    reader.memory.fillRandom(9);
    const there = pairsOf(range(1, 15), range(20, 15));
    const back = pairsOf(range(1, 15), range(20, 15));
    const results = await Promise.all([read(reader, holder, there), read(holder, reader, back)]);
    expect(results.map((result) => result.outcome)).toEqual(['done', 'done']);
    expect(differing(reader.memory, holder.memory, there)).toEqual([]);
    expect(differing(holder.memory, reader.memory, back)).toEqual([]);
  });

  it('works between all pairs of four engines at once', async () => {
    const engines = ['p0', 'p1', 'd0', 'd1'].map((name, i) =>
      makeEngine(name, { memory: new TestMemory().fillRandom(i + 1), slots: 2 }),
    );
    const reads: Promise<string>[] = [];
    for (const [i, a] of engines.entries()) for (const b of engines.slice(i + 1)) connect(a, b);
    for (const [i, a] of engines.entries()) {
      for (const [j, b] of engines.entries()) {
        if (i === j) continue;
        const pairs = pairsOf(range(1, 4), range(10 + 5 * j, 4));
        reads.push(
          read(a, b, pairs).then((result) => {
            expect(differing(a.memory, b.memory, pairs)).toEqual([]);
            return result.outcome;
          }),
        );
      }
    }
    expect(new Set(await Promise.all(reads))).toEqual(new Set(['done']));
    for (const { transport } of engines) transport.close();
  });
});

describe('the pipeline', () => {
  it('gathers as many chunks as there are slots, two at once', async () => {
    const { reader, holder } = openPair({ slots: 2, chunkBytes: 96 });
    const staging: (() => void)[] = [];
    reader.memory.onStage = () => new Promise<void>((resolve) => staging.push(resolve));
    const pairs = pairsOf(range(1, 20), range(1, 20));
    const result = read(reader, holder, pairs);
    await turns(60);
    expect(holder.transport.slotsInUse()).toBe(2);
    expect(holder.memory.gathers).toBe(2);
    expect(holder.memory.mostGathersInFlight).toBe(2);
    expect(holder.memory.gathersInFlight).toBe(0);
    reader.memory.onStage = null;
    for (const go of staging) go();
    expect((await result).outcome).toBe('done');
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
    expect(holder.memory.gathersInFlight).toBe(0);
  });

  it('serves one reader while another, with four READs, takes nothing', async () => {
    const { reader: stuck, holder } = openPair({ chunkBytes: 96 });
    stuck.memory.onStage = () => new Promise(() => {});
    const pairs = pairsOf(range(1, 12), range(1, 12));
    for (let i = 0; i < 4; i++) void read(stuck, holder, pairs, `stuck ${i}`);
    await turns(60);
    const other = makeEngine('other', { chunkBytes: 96, memory: new TestMemory() });
    connect(other, holder);
    let outcome = '';
    void read(other, holder, pairs).then((result) => {
      outcome = result.outcome;
    });
    await turns(200);
    expect(outcome).toBe('done');
    expect(differing(other.memory, holder.memory, pairs)).toEqual([]);
    other.transport.close();
  });

  it('runs at most two gathers at once for a transfer', async () => {
    const { reader, holder } = openPair({
      chunkBytes: 96,
      slots: 8,
      holder: { memory: new TestMemory({ ring: 16, delay: () => turns(8) }) },
    });
    await read(reader, holder, pairsOf(range(1, 30), range(1, 30)));
    expect(holder.memory.mostGathersInFlight).toBe(2);
  });

  it('sends chunks in their order, also if the device of the holder ends a later gather first', async () => {
    const { reader, holder } = openPair({ chunkBytes: 96 });
    holder.memory.onGather = (_group, [id]) => (id === 5 ? turns(20) : undefined);
    const stored: number[] = [];
    reader.memory.onCommit = (_group, [id]) => void stored.push(id!);
    const result = await read(reader, holder, pairsOf([5, 6, 7], [1, 2, 3]));
    expect([result.outcome, stored]).toEqual(['done', [1, 2, 3]]);
  });

  it('frees a slot before the device has stored its blocks', async () => {
    const { reader, holder } = openPair({
      slots: 1,
      chunkBytes: 96,
      reader: { memory: new TestMemory({ ring: 8 }) },
    });
    const waiting: (() => void)[] = [];
    reader.memory.onCommit = () => new Promise<void>((resolve) => waiting.push(resolve));
    const result = read(reader, holder, pairsOf(range(1, 5), range(1, 5)));
    await turns(100);
    expect(waiting.length).toBe(5);
    expect(holder.transport.slotsInUse()).toBe(0);
    let ended = false;
    void result.then(() => {
      ended = true;
    });
    for (const commit of waiting.slice(1)) commit();
    await turns();
    // Done only when every block is on the device.
    expect(ended).toBe(false);
    waiting[0]!();
    expect((await result).outcome).toBe('done');
  });

  it('gives slots to concurrent transfers in turn, one chunk each', async () => {
    const order: string[] = [];
    const { reader, holder } = openPair({
      slots: 1,
      chunkBytes: 96,
      beforeChunkPosted: (_bytes, { transferId }) => order.push(transferId),
    });
    await read(reader, holder, pairsOf([1], [1]));
    order.length = 0;
    const reads = [1, 2, 3].map((i) => read(reader, holder, pairsOf(range(1, 6), range(i * 8, 6)), `r${i}`));
    await Promise.all(reads);
    expect(order.length).toBe(18);
    for (let turn = 1; turn < 5; turn++) {
      expect(new Set(order.slice(turn * 3, turn * 3 + 3)).size).toBe(3);
    }
  });
});

describe('stages', () => {
  it('are spans of each chunk, on the lanes of the engine that did the work', async () => {
    const spans: RawSpan[] = [];
    const { reader, holder } = openPair({ onSpan: (span) => spans.push(span) });
    const result = await read(reader, holder, pairsOf(range(1, 4), range(1, 4)));
    reader.transport.notify(
      holder.address,
      { kind: 'done_reading', requestId: 'req@holder', held: CLAIM.held },
      'req',
    );
    await turns();
    const count = (name: string, lane: string) =>
      spans.filter((span) => span.name === name && laneName(span) === lane && span.requestId === 'req')
        .length;
    for (const name of ['wait', 'readback', 'slab in']) expect(count(name, 'holder host')).toBe(2);
    for (const name of ['slab out', 'upload']) expect(count(name, 'reader host')).toBe(2);
    expect(count('notify', 'link reader>holder')).toBe(1);
    expect(spans.filter((span) => span.name === 'link')).toEqual([]);
    for (const span of spans) expect(span.endMs).toBeGreaterThanOrEqual(span.startMs);
    expect(result.stages.linkMs).toBe(0);
    expect(result.stages.handshakeMs).toBeGreaterThan(0);
    expect((await read(reader, holder, pairsOf([1], [1]))).stages.handshakeMs).toBe(0);
  });

  it('count the wait from when the READ was posted', async () => {
    const clock = new TestClock();
    const { reader, holder } = openPair({ clock });
    await read(reader, holder, pairsOf([1], [1]));
    const gate = { allow: true as const, finished: () => {} };
    holder.transport.setHandlers({
      gate: () => {
        clock.advance(25);
        return gate;
      },
    });
    const result = await read(reader, holder, pairsOf(range(1, 6), range(1, 6)));
    expect(result.stages.waitMs).toBe(25);
    expect(result.wallMs).toBe(25);
  });
});

describe('a throttled link', () => {
  it('takes at least 1.6 s for 16 MiB at 10e6 bytes/s, and keeps their order', async () => {
    const clock = new TestClock();
    const shape = { blockBytes: [2 ** 18], numBlocks: [65] };
    const spans: RawSpan[] = [];
    const { reader, holder } = openPair({
      clock,
      chunkBytes: 2 ** 20,
      link: { name: '10e6', bytesPerSecond: 10e6, latencyMs: 0 },
      onSpan: (span) => spans.push(span),
      reader: { memory: new TestMemory(shape) },
      holder: { memory: new TestMemory(shape).fillRandom(3) },
    });
    const pairs = pairsOf(range(1, 64), range(1, 64));
    const result = await withSkippedTime(clock, read(reader, holder, pairs));
    expect(result).toMatchObject({ outcome: 'done', bytes: 2 ** 24, chunks: 16 });
    expect(result.wallMs).toBeGreaterThanOrEqual(1600);
    expect(result.wallMs).toBeCloseTo((2 ** 24 / 10e6) * 1000, 3);
    expect(result.stages.linkMs).toBeCloseTo(result.wallMs, 3);
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
    const arrivals = spans.filter((span) => span.name === 'link');
    expect(arrivals.map((span) => span.args.chunk)).toEqual(range(0, 16));
    expect(new Set(arrivals.map((span) => `${span.clock} ${laneName(span)}`))).toEqual(
      new Set(['modelled link holder>reader']),
    );
  });

  it('throttles each direction independently', async () => {
    const clock = new TestClock();
    const shape = { blockBytes: [1000], numBlocks: [12] };
    const { reader, holder } = openPair({
      clock,
      chunkBytes: 1000,
      link: { name: '1e4', bytesPerSecond: 1e4, latencyMs: 0 },
      reader: { memory: new TestMemory(shape) },
      holder: { memory: new TestMemory(shape) },
    });
    const both = Promise.all([
      read(reader, holder, pairsOf(range(1, 10), range(1, 10))),
      read(holder, reader, pairsOf(range(1, 10), range(1, 10))),
    ]);
    const walls = (await withSkippedTime(clock, both)).map((result) => result.wallMs);
    expect(walls[0]).toBeCloseTo(1000, 3);
    expect(walls[1]).toBeCloseTo(1000, 3);
  });
});
