/** The handshake, and messages that cannot be meant: what is refused, and that a refusal says why. */
import { describe, expect, it } from 'vitest';
import type { CompatibilityFactors } from '../../src/transport/compatibility.ts';
import type { PeerMessage, WelcomeMessage } from '../../src/transport/messages.ts';
import { FACTORS, makeEngine, pairsOf, range, read, realClock, TestMemory, turns } from './helpers.ts';
import { openPair } from './pairs.ts';

const some = pairsOf(range(1, 10), range(1, 10));

describe('the handshake', () => {
  const changes: [keyof CompatibilityFactors, string | number][] = [
    ['model', 'nano@2'],
    ['weightDtype', 'f32'],
    ['kvDtype', 'f32'],
    ['numLayers', 3],
    ['numKvHeads', 1],
    ['headDim', 32],
    ['blockLayoutVersion', 99],
    ['connectorVersion', 99],
  ];
  for (const [factor, value] of changes) {
    it(`refuses another ${factor} and names both sides', unless told not to enforce`, async () => {
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

  it('always refuses another block size or other block bytes', async () => {
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

  it('happens once for many READs, and again after a failed one', async () => {
    const { reader, holder } = openPair({ holder: { factors: { ...FACTORS, model: 'other' } } });
    const results = await Promise.all(range(0, 3).map(() => read(reader, holder, some)));
    expect(results.map((result) => result.outcome)).toEqual(['failed', 'failed', 'failed']);
    expect((await read(reader, holder, some)).message).toContain('model is nano@1 here and other there');
  });

  it('gives the offset of the clocks: about nothing on one machine', async () => {
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

  const broken: [string, (welcome: WelcomeMessage) => unknown][] = [
    ['without an identity', ({ identity: _, ...rest }) => rest],
    [
      'with an identity of the wrong kind',
      (w) => ({ ...w, identity: { ...w.identity, blockBytes: 'many' } }),
    ],
    ['without shared memory', (w) => ({ ...w, slab: new ArrayBuffer(8) })],
    ['with too small a slab', (w) => ({ ...w, slots: 1000 })],
  ];
  for (const [what, spoil] of broken) {
    it(`fails on a reply ${what}`, async () => {
      const reader = makeEngine('reader');
      const holder = makeEngine('holder');
      const [toReader, toHolder] = interposed(reader, holder, (message) =>
        message.kind === 'welcome' ? spoil(message) : message,
      );
      const result = await read(reader, holder, some);
      expect(result.outcome).toBe('failed');
      expect(result.message).toContain("the handshake's reply cannot be read");
      for (const port of [toReader, toHolder]) port.close();
    });
  }
});

/** Connects the two through a third party that may change what the holder says. */
function interposed(
  reader: ReturnType<typeof makeEngine>,
  holder: ReturnType<typeof makeEngine>,
  change: (message: PeerMessage) => unknown,
): [MessagePort, MessagePort] {
  const a = new MessageChannel();
  const b = new MessageChannel();
  reader.transport.addPeer(a.port1, holder.address);
  holder.transport.addPeer(b.port1, reader.address);
  a.port2.onmessage = ({ data }) => b.port2.postMessage(data);
  b.port2.onmessage = ({ data }) => {
    const changed = change(data);
    if (changed !== null) a.port2.postMessage(changed);
  };
  return [a.port2, b.port2];
}

describe('a chunk that cannot be meant', () => {
  const spoils: [string, (message: PeerMessage) => unknown][] = [
    ['of blocks nobody asked for', (m) => (m.kind === 'chunk' ? { ...m, first: 100 } : m)],
    ['of the wrong length', (m) => (m.kind === 'chunk' ? { ...m, byteLength: 1 } : m)],
    ['outside of the slab', (m) => (m.kind === 'chunk' ? { ...m, slot: 1000 } : m)],
    ['twice', (m) => (m.kind === 'chunk' ? { ...m, index: 0 } : m)],
    ['lost on the way', (m) => (m.kind === 'chunk' && m.index === 1 ? null : m)],
  ];
  for (const [what, spoil] of spoils) {
    it(`${what} fails the transfer`, async () => {
      const reader = makeEngine('reader');
      const holder = makeEngine('holder');
      const ports = interposed(reader, holder, spoil);
      expect((await read(reader, holder, some)).outcome).toBe('failed');
      for (const port of ports) port.close();
    });
  }

  it('of another epoch or of an unknown transfer is dropped, and its slot given back', async () => {
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

describe('a message that ended early', () => {
  it.each(['chunk', 'read_ended'] as const)(
    '%s: the other engine is given up, and nothing throws',
    async (kind) => {
      const reader = makeEngine('reader');
      const holder = makeEngine('holder');
      const ports = interposed(reader, holder, (message) =>
        message.kind === kind ? { kind, epoch: message.epoch } : message,
      );
      const result = await read(reader, holder, some);
      expect(result.outcome).toBe('dead');
      expect(result.message).toContain('it sent something that is no message of this protocol');
      for (const port of ports) port.close();
    },
  );
});
