/** The handshake and invalid messages: what is rejected, and with which reason. */
import { describe, expect, it } from 'vitest';
import type { CompatibilityFactors } from '../../src/transport/compatibility.ts';
import type { PeerMessage, WelcomeMessage } from '../../src/transport/messages.ts';
import { TestClock } from '../clock.ts';
import {
  connect,
  differing,
  FACTORS,
  makeEngine,
  pairsOf,
  range,
  read,
  realClock,
  TestMemory,
  turns,
  withSkippedTime,
} from './helpers.ts';
import { openPair } from './pairs.ts';

const some = pairsOf(range(1, 10), range(1, 10));

describe('the handshake', () => {
  const changes: [keyof CompatibilityFactors, string | number][] = [
    ['model', 'nano@2'],
    ['weightDtype', 'f32'],
    ['kvDtype', 'f32'],
    ['arithmetic', 'f16'],
    ['numLayers', 3],
    ['numKvHeads', 1],
    ['headDim', 32],
    ['blockLayoutVersion', 99],
    ['connectorVersion', 99],
  ];
  for (const [factor, value] of changes) {
    it(`rejects a different ${factor} and names both values, unless compatibility is not enforced`, async () => {
      const factors = { ...FACTORS, [factor]: value };
      const { reader, holder } = openPair({ holder: { factors } });
      const result = await read(reader, holder, some);
      expect(result.outcome).toBe('failed');
      expect(result.message).toMatch(new RegExp(`${factor} is \\S+ here and ${value} there`));
      expect(holder.memory.gathers).toBe(0);
      const lax = openPair({ holder: { factors }, enforceHandshakeCompat: false });
      expect((await read(lax.reader, lax.holder, some)).outcome).toBe('done');
    });
  }

  it('always rejects a different block size or different block bytes', async () => {
    const size = openPair({ holder: { identityChanges: { blockSize: 32 } }, enforceHandshakeCompat: false });
    const result = await read(size.reader, size.holder, some);
    expect(result).toMatchObject({ outcome: 'failed' });
    expect(result.message).toContain('block size differs (16 and 32 tokens)');
    const bytes = openPair({
      holder: { memory: new TestMemory({ blockBytes: [128] }) },
      enforceHandshakeCompat: false,
    });
    expect((await read(bytes.reader, bytes.holder, some)).message).toContain('differ (96 and 128)');
  });

  it('fails all concurrent READs, and later ones, if the models differ', async () => {
    const { reader, holder } = openPair({ holder: { factors: { ...FACTORS, model: 'other' } } });
    const results = await Promise.all(range(0, 3).map(() => read(reader, holder, some)));
    expect(results.map((result) => result.outcome)).toEqual(['failed', 'failed', 'failed']);
    expect((await read(reader, holder, some)).message).toContain('model is nano@1 here and other there');
  });

  it('measures the clock offset, about 0 for equal clocks', async () => {
    const { reader, holder } = openPair();
    expect(Math.abs(await reader.transport.clockOffsetSeconds(holder.address))).toBeLessThan(1);
    const skewed = openPair({
      holder: { clock: { now: () => Date.now() + 3_600_000, sleep: realClock.sleep } },
      reader: { clock: { now: () => Date.now(), sleep: realClock.sleep } },
    });
    expect(await skewed.reader.transport.clockOffsetSeconds(skewed.holder.address)).toBeCloseTo(3600, 0);
    await expect(reader.transport.clockOffsetSeconds({ ...holder.address, port: 1 })).rejects.toThrow(
      'no engine is known',
    );
  });

  const broken: [what: string, spoil: (welcome: WelcomeMessage) => unknown, told: string][] = [
    ['without an identity', ({ identity: _, ...rest }) => rest, 'identity: wanted an object'],
    [
      'with an identity of the wrong kind',
      (w) => ({ ...w, identity: { ...w.identity, blockBytes: 'many' } }),
      'identity.blockBytes: wanted a list of whole numbers above 0',
    ],
    [
      'with blocks of 0 bytes',
      (w) => ({ ...w, identity: { ...w.identity, blockBytes: [0] } }),
      'identity.blockBytes: wanted a list of whole numbers above 0',
    ],
    [
      'with one group of blocks without bytes',
      (w) => ({ ...w, identity: { ...w.identity, blockBytes: [96, 0] } }),
      'identity.blockBytes: wanted a list of whole numbers above 0',
    ],
    ['without shared memory', (w) => ({ ...w, slab: new ArrayBuffer(8) }), 'slab: wanted shared memory'],
    ['without slots', (w) => ({ ...w, slots: 0 }), 'slots: wanted a whole number above 0'],
    ['without a time', (w) => ({ ...w, now: 'noon' }), 'now: wanted a number'],
    ['with too small a slab', (w) => ({ ...w, slots: 1000 }), 'bytes, not 1000 x'],
  ];
  for (const [what, spoil, told] of broken) {
    it(`fails on a reply ${what}`, async () => {
      const reader = makeEngine('reader');
      const holder = makeEngine('holder');
      const [toReader, toHolder] = interposed(reader, holder, (message) =>
        message.kind === 'welcome' ? spoil(message) : message,
      );
      const result = await read(reader, holder, some);
      expect(result.outcome).toBe('failed');
      expect(result.message).toContain('the reply to the handshake is invalid');
      expect(result.message).toContain(told);
      for (const port of [toReader, toHolder]) port.close();
    });
  }
});

describe('a READ that comes twice', () => {
  const two = pairsOf(range(1, 3), range(1, 3));
  const twice = ({ kind }: PeerMessage): number => (kind === 'read' ? 2 : 1);
  /** The reader is still storing blocks when the holder, which needs no time, has served the READ. */
  const slow = () => makeEngine('reader', { memory: new TestMemory({ delay: () => turns(8) }) });

  it('is served once, so that no slot of the slab stays in use', async () => {
    const [reader, holder] = [slow(), makeEngine('holder')];
    connect(reader, holder, twice);
    expect((await read(reader, holder, two)).outcome).toBe('done');
    await turns();
    expect(holder.transport.slotsInUse()).toBe(0);
    expect(holder.pins).toEqual({ held: 0, finished: 1 });
  });

  it('is done, although its blocks may be read only once', async () => {
    const [reader, holder] = [slow(), makeEngine('holder')];
    let left = 1;
    holder.transport.setHandlers({
      gate: () =>
        left-- > 0
          ? { allow: true, finished() {} }
          : { allow: false, outcome: 'declined', message: 'they were read' },
    });
    connect(reader, holder, twice);
    expect((await read(reader, holder, two)).outcome).toBe('done');
  });
});

/** Connects the two through a relay that sends each message on as `change` returns it; null: the message is lost. */
function interposed(
  reader: ReturnType<typeof makeEngine>,
  holder: ReturnType<typeof makeEngine>,
  change: (message: PeerMessage) => unknown,
): [MessagePort, MessagePort] {
  const a = new MessageChannel();
  const b = new MessageChannel();
  reader.transport.addPeer(a.port1, holder.address);
  holder.transport.addPeer(b.port1, reader.address);
  for (const [from, to] of [
    [a.port2, b.port2],
    [b.port2, a.port2],
  ] as const) {
    from.onmessage = ({ data }) => {
      const changed = change(data);
      if (changed !== null) to.postMessage(changed);
    };
  }
  return [a.port2, b.port2];
}

describe('a chunk', () => {
  const meant = 'the holder sent an invalid chunk: chunk 0 ';
  const spoils: [what: string, spoil: (message: PeerMessage) => unknown, told: string][] = [
    [
      'of blocks that were not requested',
      (m) => (m.kind === 'chunk' ? { ...m, first: 100 } : m),
      `${meant}names blocks 100`,
    ],
    ['of the wrong length', (m) => (m.kind === 'chunk' ? { ...m, byteLength: 1 } : m), `${meant}has 1 bytes`],
    [
      'outside the slab',
      (m) => (m.kind === 'chunk' ? { ...m, slot: 4 } : m),
      'chunk 0 is not in a slot of the slab',
    ],
    ['with the index of an earlier one', (m) => (m.kind === 'chunk' ? { ...m, index: 0 } : m), 'blocks'],
    ['that is lost', (m) => (m.kind === 'chunk' && m.index === 1 ? null : m), 'the holder sent'],
  ];
  for (const [what, spoil, told] of spoils) {
    it(`${what} fails the READ`, async () => {
      const reader = makeEngine('reader');
      const holder = makeEngine('holder');
      const ports = interposed(reader, holder, spoil);
      const result = await read(reader, holder, some);
      expect(result).toMatchObject({ outcome: 'failed', message: expect.stringContaining(told) });
      await turns();
      expect(holder.pins.held).toBe(0);
      for (const port of ports) port.close();
    });
  }

  it('of another epoch or of an unknown transfer is dropped; only the slot of the latter is returned', async () => {
    const reader = makeEngine('reader');
    const holder = makeEngine('holder');
    const toHolder: PeerMessage[] = [];
    const a = new MessageChannel();
    const b = new MessageChannel();
    reader.transport.addPeer(a.port1, holder.address);
    holder.transport.addPeer(b.port1, reader.address);
    b.port2.onmessage = ({ data }) => {
      if (data.kind === 'chunk') {
        a.port2.postMessage({ ...data, epoch: data.epoch + 1, slot: 2 });
        a.port2.postMessage({ ...data, transferId: 'nobody', slot: 3 });
      }
      a.port2.postMessage(data);
    };
    a.port2.onmessage = ({ data }) => {
      toHolder.push(data);
      b.port2.postMessage(data);
    };
    expect((await read(reader, holder, pairsOf([1], [1]))).outcome).toBe('done');
    await turns();
    const credits = toHolder.flatMap((message) => (message.kind === 'credit' ? [message.slot] : []));
    expect(credits.toSorted()).toEqual([0, 3]);
    for (const port of [a.port2, b.port2]) port.close();
  });
});

it('a credit of another epoch frees no slot', async () => {
  const reader = makeEngine('reader', { memory: new TestMemory() });
  const holder = makeEngine('holder');
  const ports = interposed(reader, holder, (message) =>
    message.kind === 'credit' ? { ...message, epoch: message.epoch - 1 } : message,
  );
  expect((await read(reader, holder, pairsOf([1], [1]))).outcome).toBe('done');
  await turns();
  expect(holder.transport.slotsInUse()).toBe(1);
  for (const port of ports) port.close();
});

describe('a truncated message', () => {
  const cutting = (kind: PeerMessage['kind'], times: number) => {
    let left = times;
    const clock = new TestClock();
    const reader = makeEngine('reader', { clock, memory: new TestMemory(), slots: 2, chunkBytes: 200 });
    const holder = makeEngine('holder', { clock, slots: 2, chunkBytes: 200 });
    const ports = interposed(reader, holder, (message) =>
      message.kind === kind && left-- > 0 ? { kind } : message,
    );
    const close = () => {
      for (const port of ports) port.close();
    };
    return { clock, reader, holder, close };
  };

  it.each(['chunk', 'read_ended', 'read', 'credit', 'hello', 'welcome'] as const)(
    '(%s) ends no READ and no engine: both READs succeed, and so does a later one',
    async (kind) => {
      const { clock, reader, holder, close } = cutting(kind, 1);
      const gone: string[] = [];
      for (const { transport } of [reader, holder])
        transport.setHandlers({ onPeerGone: (engineId) => gone.push(engineId) });
      const others = pairsOf(range(11, 10), range(11, 10));
      const both = Promise.all([read(reader, holder, some), read(reader, holder, others, 'other')]);
      const results = await withSkippedTime(clock, both);
      expect(results.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
      expect(differing(reader.memory, holder.memory, [...some, ...others])).toEqual([]);
      expect(gone).toEqual([]);
      const again = await withSkippedTime(clock, read(holder, reader, pairsOf([21], [21])));
      expect(again.outcome).toBe('done');
      await turns();
      expect(holder.pins.held).toBe(0);
      expect(holder.transport.slotsInUse()).toBe(0);
      close();
    },
  );

  it('costs no timeout if it is a chunk, a read or a credit', async () => {
    for (const kind of ['chunk', 'read', 'credit'] as const) {
      const { clock, reader, holder, close } = cutting(kind, 1);
      const before = clock.now();
      expect((await read(reader, holder, some)).outcome, kind).toBe('done');
      expect(clock.now()).toBe(before);
      close();
    }
  });

  it('at each of three attempts fails the READ, with the reason', async () => {
    const { clock, reader, holder, close } = cutting('chunk', Number.POSITIVE_INFINITY);
    const result = await withSkippedTime(clock, read(reader, holder, some));
    expect(result.outcome).toBe('failed');
    expect(result.message).toContain('not a message of this protocol');
    await turns();
    expect(holder.pins).toEqual({ held: 0, finished: 3 });
    close();
  });
});
