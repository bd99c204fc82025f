/** Each fault does what its name says, once, and can be ended. */
import { describe, expect, it } from 'vitest';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import { FaultyClient } from '../../src/faults/client.ts';
import { FaultyClock } from '../../src/faults/clock.ts';
import { armFirst, FaultyDirection, MESSAGE_FAULTS, type MessageFault } from '../../src/faults/messages.ts';
import { FAULTS, type Fault, FaultClock, type FaultKind, makeSchedule } from '../../src/faults/schedule.ts';
import type { PeerMessage } from '../../src/transport/messages.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import { TestClock } from '../clock.ts';
import { FakeEngine } from '../router/fake-engine.ts';

const kinds = Object.keys(FAULTS) as FaultKind[];

describe('a fault schedule', () => {
  it('is the same for the same seed and differs for another', () => {
    const made = (seed: number) => makeSchedule(seed, { kinds, faults: 20, span: 8 });
    expect(made(7)).toEqual(made(7));
    expect(made(7)).not.toEqual(made(8));
  });

  it('triggers each fault once, when its stage is reached for the given time', () => {
    const at = (count: number): Fault => ({ kind: 'end', target: 'decode', at: { stage: 'pulling', count } });
    const told: number[] = [];
    const faults = new FaultClock([at(3), at(1)], (fault) => told.push(fault.at.count));
    faults.reached('streaming');
    for (let i = 0; i < 5; i++) faults.reached('pulling');
    expect(told).toEqual([1, 3]);
  });
});

describe('a message fault', () => {
  const credit = (slot: number): PeerMessage => ({
    kind: 'credit',
    epoch: 1,
    transferId: 't',
    index: 0,
    slot,
  });
  const notice: PeerMessage = {
    kind: 'notification',
    notification: { kind: 'heartbeat', holds: [] },
    requestId: null,
    postedAt: 0,
  };

  function sent(fault: MessageFault, messages: readonly PeerMessage[]) {
    const arrived: PeerMessage[] = [];
    let met = 0;
    const direction = new FaultyDirection((message) => arrived.push(message));
    direction.arm(fault, () => met++);
    for (const message of messages) direction.pass(message);
    return { arrived, direction, met: () => met };
  }

  it.each([
    ['lose', [credit(2), notice]],
    ['lose-notice', [credit(1), credit(2)]],
    ['repeat', [credit(1), credit(1), credit(2), notice]],
    ['reorder', [credit(2), credit(1), notice]],
    ['truncate', [{ kind: 'credit', epoch: 1, transferId: 't' }, credit(2), notice]],
    ['flip', [credit(1), credit(2), notice]],
  ] as const)('of kind %s changes what arrives accordingly', (fault, arrived) => {
    expect(sent(fault, [credit(1), credit(2), notice]).arrived).toEqual(arrived);
  });

  it('of kind delay holds messages back until it is healed, and keeps their order', () => {
    const { arrived, direction } = sent('delay', [credit(1), credit(2)]);
    expect(arrived).toEqual([]);
    direction.heal();
    direction.pass(notice);
    expect(arrived).toEqual([credit(1), credit(2), notice]);
  });

  it('that is not met yet stays armed when late messages are delivered', () => {
    const { arrived, direction } = sent('delay', [credit(1)]);
    direction.arm('lose', () => {});
    direction.deliverLate();
    expect(arrived).toEqual([credit(1)]);
    direction.pass(credit(2));
    expect(arrived).toEqual([credit(1)]);
  });

  it('that delays single messages lets each go on its own, but never ahead of an earlier one', () => {
    const arrived: PeerMessage[] = [];
    const direction = new FaultyDirection((message) => arrived.push(message));
    const late = { fault: 'delay', met: () => {} } as const;
    const [first, second, third] = [credit(1), credit(2), credit(3)];
    direction.pass(first, late);
    direction.pass(notice);
    direction.pass(second, late);
    direction.pass(third, late);
    direction.letGo(first);
    expect(arrived).toEqual([first, notice]);
    direction.letGo(third);
    expect(arrived).toEqual([first, notice]);
    direction.letGo(second);
    expect(arrived).toEqual([first, notice, second, third]);
    direction.pass(notice);
    expect(arrived).toHaveLength(5);
  });

  it('does not count as having happened until it hits a message', () => {
    const { met } = sent('lose-notice', [credit(1)]);
    expect(met()).toBe(0);
    for (const fault of MESSAGE_FAULTS.filter((fault) => fault !== 'flip'))
      expect(sent(fault, [notice]).met(), fault).toBe(1);
  });

  it('hits one message of an engine, whichever peer it goes to', () => {
    const arrived: PeerMessage[] = [];
    const [first, second] = [0, 1].map(() => new FaultyDirection((message) => arrived.push(message)));
    let met = 0;
    armFirst([first!, second!], 'lose', () => met++);
    second!.pass(credit(1));
    expect([met, arrived]).toEqual([1, []]);
    first!.pass(credit(2));
    second!.pass(notice);
    expect([met, arrived]).toEqual([1, [credit(2), notice]]);
  });

  it('of kind flip changes one bit of a chunk in the slab', () => {
    const slab = new SharedArrayBuffer(32);
    const direction = new FaultyDirection(() => {});
    direction.pass({ kind: 'welcome', slab, slotBytes: 16 } as unknown as PeerMessage);
    direction.arm('flip', () => {});
    direction.pass({ kind: 'chunk', slot: 1, byteLength: 16 } as unknown as PeerMessage);
    expect([...new Uint8Array(slab)].flatMap((byte, at) => (byte === 0 ? [] : [[at, byte]]))).toEqual([
      [17, 0x40],
    ]);
  });
});

describe('a faulty clock', () => {
  it('can jump, and can stall and then catch up', () => {
    const real = new TestClock(1000);
    const clock = new FaultyClock(real);
    clock.move({ jumpMs: 500 });
    expect(clock.now()).toBe(1500);
    clock.move({ stallMs: 100 });
    real.advance(99);
    expect(clock.now()).toBe(1500);
    real.advance(1);
    expect(clock.now()).toBe(1600);
  });
});

describe('an engine that hangs', () => {
  it('handles its calls and answers once it is healed', async () => {
    const engine = new FakeEngine('d0', 'decode');
    const client = new FaultyClient(engine, new TestClock());
    const sampling = { ...DEFAULT_SAMPLING, maxTokens: 2 };
    const request = {
      requestId: 'r',
      promptTokenIds: [1],
      sampling,
      kvTransferParams: null,
      cacheSalt: null,
    };
    const [read, load] = [emptyResult('done', 'of a peer', 0), emptyResult('done', 'of a store', 0)];
    const { submit } = engine;
    engine.submit = async (asked) => {
      const inner = await submit.call(engine, asked);
      inner.transfers.push(read);
      inner.loads.push(load);
      return inner;
    };
    client.hang();
    const submitted = client.submit(request);
    const told = [client.stop('a'), client.abort('b'), client.release(['c'])];
    await new Promise(setImmediate);
    expect(engine.requests).toEqual([]);
    expect([engine.stopped, engine.aborted, engine.released]).toEqual([[], [], []]);
    // Routers that use requests in flight still see the request here.
    expect([engine.load, client.load]).toEqual([{ inFlight: 0 }, { inFlight: 1 }]);
    client.heal();
    await Promise.all(told);
    expect([engine.stopped, engine.aborted, engine.released]).toEqual([['a'], ['b'], ['c']]);
    let outputs = 0;
    const stream = await submitted;
    for await (const _ of stream) outputs++;
    expect(outputs).toBe(2);
    expect(client.load).toEqual({ inFlight: 0 });
    // Transfers from peers and loads from a store come with the answer.
    expect(stream).toMatchObject({ transfers: [read], loads: [load] });
  });
});
