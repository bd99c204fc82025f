/** Messages and READs that are refused, closed engines, aborts, and what a transport reports of slabs, links and stages. */
import { describe, expect, it } from 'vitest';
import { EngineDeadError, TransferError } from '../../src/errors.ts';
import { impossibleRead } from '../../src/transport/impossible-read.ts';
import { parseLink } from '../../src/transport/link.ts';
import { isWellFormed } from '../../src/transport/message-check.ts';
import type { PeerMessage, ReadMessage, StreamMessage } from '../../src/transport/messages.ts';
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

describe('a message', () => {
  const cancel = { kind: 'cancel', epoch: 1, transferId: 't' };
  const notice = { kind: 'notification', notification: { kind: 'heartbeat', holds: [] }, postedAt: 0 };

  it('is readable if it has the required fields of its kind; further fields are ignored', () => {
    for (const message of [cancel, notice, { ...cancel, more: 1 }]) expect(isWellFormed(message)).toBe(true);
  });

  it.each([
    null,
    undefined,
    5,
    'cancel',
    {},
    { ...cancel, kind: 5 },
    { ...cancel, kind: ['cancel'] },
    { ...cancel, kind: 'nothing' },
    { ...cancel, kind: 'toString' },
    { ...cancel, epoch: '1' },
    { kind: 'cancel', epoch: 1 },
    { ...notice, notification: null },
    { ...notice, notification: 'heartbeat' },
  ])('is not readable: %o', (message) => {
    expect(isWellFormed(message)).toBe(false);
  });
});

describe('an impossible READ', () => {
  const blocks = (blockIds: number[][]) =>
    impossibleRead({ kind: 'read', blockIds } as unknown as ReadMessage, [10, 5]);
  const places = (blockIndexes: number[][]) =>
    impossibleRead({ kind: 'stream', blockIndexes } as unknown as StreamMessage, [10, 5]);

  it('is refused with the block or group that does not exist', () => {
    expect(blocks([[1, 9], [4]])).toBeNull();
    expect(blocks([[9, 1]])).toBeNull();
    expect(blocks([[1], [5]])).toBe("the READ names block 5 of group 1; the holder's blocks are 1 to 4.");
    for (const wrong of [0, -1, 10, 1.5])
      expect(blocks([[1, wrong]]), `${wrong}`).toContain(`block ${wrong} `);
    expect(blocks([[], [], []])).toBe('the READ names KV cache group 2; the holder has 2 group(s).');
  });

  it('of a stream is refused if its group does not exist or its block indexes do not ascend', () => {
    expect(places([[0, 1, 7], [3]])).toBeNull();
    expect(places([[], [], []])).toContain('KV cache group 2');
    for (const wrong of [[-1], [1, 1], [2, 1], [0.5], [0, 1.5]])
      expect(places([[0], wrong]), `${wrong}`).toBe('the READ names blocks out of order.');
  });
});

describe('a closed engine', () => {
  it("ends its READs as 'dead', and accepts no further peer", async () => {
    const { reader, holder } = openPair();
    reader.transport.close();
    expect(await read(reader, holder, pairsOf([1], [1]))).toMatchObject({
      outcome: 'dead',
      message: expect.stringContaining("'reader' closed its transport"),
    });
    const { port1, port2 } = new MessageChannel();
    const closed = new Promise((resolve) => port2.addEventListener('close', resolve));
    port2.start();
    reader.transport.addPeer(port1, holder.address);
    await closed;
    await expect(reader.transport.clockOffsetSeconds(holder.address)).rejects.toThrow(EngineDeadError);
  });

  it("is reported to its reader once, and later READs from it end as 'dead'", async () => {
    const { reader, holder } = openPair();
    const gone: string[] = [];
    reader.transport.setHandlers({ onPeerGone: (engineId) => gone.push(engineId) });
    expect((await read(reader, holder, pairsOf([1], [1]))).outcome).toBe('done');
    holder.transport.close();
    await turns();
    reader.transport.peerDied('holder');
    expect(gone).toEqual(['holder']);
    expect(await read(reader, holder, pairsOf([1], [1]))).toMatchObject({ outcome: 'dead' });
  });
});

it('clockOffsetSeconds of an unknown engine rejects with TransferError', async () => {
  const { reader } = openPair();
  const nobody = { engineId: 'x', host: 'localhost', port: 1 };
  await expect(reader.transport.clockOffsetSeconds(nobody)).rejects.toThrow(TransferError);
});

it('a streamed READ fails if the holder has no stream gate', async () => {
  const { reader, holder } = openPair();
  const streamed = {
    remote: holder.address,
    remoteRequestId: 'r',
    claim: CLAIM,
    requestId: 'q',
    streamed: true,
  };
  expect(await reader.transport.read({ ...streamed, pairs: pairsOf([0], [1]) })).toMatchObject({
    outcome: 'failed',
    message: 'the holder is not ready to stream blocks.',
  });
});

it.each(['read', 'stream'] as const)(
  "a '%s' message of an epoch that the holder does not know is repeated within one silence timeout",
  async (kind) => {
    const clock = new TestClock();
    const reader = makeEngine('reader', { clock, memory: new TestMemory() });
    const holder = makeEngine('holder', { clock });
    const revoked = new AbortController().signal;
    const ready = async () => ({ blockIds: [range(1, 10)], numBlocks: 10, revoked });
    holder.transport.setHandlers({ streamGate: () => ({ ready, finished: () => {} }) });
    let wrong = true;
    connect(reader, holder, (message: PeerMessage) => {
      if (message.kind === kind && wrong) {
        wrong = false;
        message.epoch += 7;
      }
      return 1;
    });
    const before = clock.now();
    const pairs = pairsOf(range(kind === 'read' ? 1 : 0, 3), range(1, 3));
    const request = { remote: holder.address, remoteRequestId: 'r', claim: CLAIM, requestId: 'q', pairs };
    // The holder answers under the wrong epoch, which the reader ignores, so the first attempt may end by silence.
    const result = await withSkippedTime(
      clock,
      reader.transport.read({ ...request, streamed: kind === 'stream' }),
    );
    expect(result.outcome).toBe('done');
    expect(clock.now() - before).toBeLessThanOrEqual(20_000);
    expect(differing(reader.memory, holder.memory, pairsOf(range(1, 3), range(1, 3)))).toEqual([]);
  },
);

describe('sizes', () => {
  it("of chunks are limited by the smaller of both ends' chunkBytes", async () => {
    const { reader, holder } = openPair({ reader: { chunkBytes: 96 }, holder: { chunkBytes: 960 } });
    expect(await read(reader, holder, pairsOf(range(1, 4), range(1, 4)))).toMatchObject({ chunks: 4 });
    expect(await read(holder, reader, pairsOf(range(1, 4), range(1, 4)))).toMatchObject({ chunks: 4 });
  });

  it('of slabs are reported before any handshake, and for all readers after it', async () => {
    const { reader, holder } = openPair({ slots: 3, chunkBytes: 200 });
    expect(holder.transport.slabBytes).toBe(600);
    expect(holder.transport.slab()).toEqual({ slotsInUse: 0, slots: 0, slotBytes: 0 });
    expect(holder.transport.sharedBytes).toBe(0);
    await read(reader, holder, pairsOf([1], [1]));
    await turns();
    expect(holder.transport.slab()).toEqual({ slotsInUse: 0, slots: 3, slotBytes: 200 });
    expect(holder.transport.sharedBytes).toBe(600);
    const other = makeEngine('other', { memory: new TestMemory(), slots: 3, chunkBytes: 100 });
    connect(other, holder);
    await read(other, holder, pairsOf([1], [1]));
    expect(holder.transport.slab()).toMatchObject({ slots: 6, slotBytes: 200 });
    expect(holder.transport.sharedBytes).toBe(600 + 3 * 104);
    other.transport.close();
  });
});

it('setLink applies from the next chunk on, except to a peer with a link of its own', async () => {
  const clock = new TestClock();
  const reader = makeEngine('reader', { clock, memory: new TestMemory() });
  const near = makeEngine('near', { clock, memory: new TestMemory() });
  const holder = makeEngine('holder', { clock });
  connect(reader, holder);
  const { port1, port2 } = new MessageChannel();
  near.transport.addPeer(port1, holder.address);
  holder.transport.addPeer(port2, near.address, parseLink('96000'));
  const one = pairsOf([1], [1]);
  const linkMs = async (engine: typeof reader) =>
    (await withSkippedTime(clock, read(engine, holder, one))).stages.linkMs;
  expect(await linkMs(reader)).toBe(0);
  expect(await linkMs(near)).toBeCloseTo(1);
  holder.transport.setLink(parseLink('9600'));
  expect(await linkMs(reader)).toBeCloseTo(10);
  expect(await linkMs(near)).toBeCloseTo(1);
});

it("a chunk's time is divided into stages as both devices report it", async () => {
  const clock = new TestClock();
  const { reader, holder } = openPair({ clock });
  const gather = holder.memory.gather.bind(holder.memory);
  holder.memory.gather = async (...of) => ({
    ...(await gather(...of)),
    gatherMs: 2,
    waitMs: 3,
    readbackMs: 5,
  });
  holder.memory.onGather = () => clock.advance(20);
  const stage = reader.memory.stage.bind(reader.memory);
  reader.memory.stage = async (byteLength) => {
    const staged = await stage(byteLength);
    return { ...staged, commit: async (...of) => ({ ...(await staged.commit(...of)), scatterMs: 4 }) };
  };
  reader.memory.onCommit = () => clock.advance(10);
  const { stages, wallMs, postMs } = await read(reader, holder, pairsOf([1], [1]));
  expect(stages).toMatchObject({ handshakeMs: 0, waitMs: 13, gatherMs: 2, readbackMs: 5, slabInMs: 0 });
  expect(stages).toMatchObject({ slabOutMs: 0, uploadMs: 6, scatterMs: 4 });
  expect({ wallMs, postMs }).toEqual({ wallMs: 30, postMs: 0 });
});

it.each([
  ['gathers too few bytes', 'holder'],
  ['stages too few bytes', 'reader'],
] as const)('an engine that %s fails the READ, and keeps neither slot nor buffer', async (_, which) => {
  const { reader, holder } = openPair();
  if (which === 'holder') {
    const gather = holder.memory.gather.bind(holder.memory);
    holder.memory.gather = async (...of) => ({ ...(await gather(...of)), bytes: new Uint8Array(5) });
  } else {
    const stage = reader.memory.stage.bind(reader.memory);
    reader.memory.stage = async (bytes) => ({ ...(await stage(bytes)), bytes: new Uint8Array(5) });
  }
  expect((await read(reader, holder, pairsOf(range(1, 5), range(1, 5)))).outcome).toBe('failed');
  await turns();
  expect(holder.transport.slotsInUse()).toBe(0);
  expect(holder.memory.gathersInFlight + reader.memory.stagesInFlight).toBe(0);
  expect(holder.pins).toEqual({ held: 0, finished: 1 });
});

it('a READ that is aborted before it begins or while it runs fails, and stores nothing', async () => {
  for (const early of [true, false]) {
    const { reader, holder } = openPair();
    const client = new AbortController();
    const streamed = { remote: holder.address, remoteRequestId: 'r', claim: CLAIM, requestId: 'q' };
    if (early) client.abort();
    else holder.memory.onGather = () => client.abort();
    const result = await reader.transport.read({
      ...streamed,
      pairs: pairsOf([1], [1]),
      signal: client.signal,
    });
    expect(result).toMatchObject({ outcome: 'failed', message: 'the READ was aborted.' });
    await turns();
    expect(holder.pins.held).toBe(0);
    expect(holder.transport.slotsInUse()).toBe(0);
    expect(reader.memory.commits).toBe(0);
  }
});
