/** READs that do not succeed: each ends with an outcome and a message, never with a rejection or a hang. */
import { describe, expect, it } from 'vitest';
import { TestClock } from '../clock.ts';
import { CLAIM, connect, differing, makeEngine, pairsOf, range, read, turns } from './helpers.ts';
import { openPair } from './pairs.ts';

const some = pairsOf(range(1, 10), range(1, 10));

describe("the holder's gate", () => {
  for (const outcome of ['declined', 'expired', 'refused', 'failed'] as const) {
    it(`ends the READ as '${outcome}' without touching a block`, async () => {
      const { reader, holder } = openPair();
      holder.transport.setHandlers({
        gate: () => ({ allow: false, outcome, message: `because ${outcome}` }),
      });
      expect(await read(reader, holder, some)).toMatchObject({
        outcome,
        message: `because ${outcome}`,
        bytes: 0,
      });
      expect(holder.memory.gathers).toBe(0);
    });
  }

  it('fails the READ by throwing', async () => {
    const { reader, holder } = openPair();
    holder.transport.setHandlers({
      gate: () => {
        throw new Error('no such table');
      },
    });
    const result = await read(reader, holder, some);
    expect(result.outcome).toBe('failed');
    expect(result.message).toContain('no such table');
  });

  it('receives the request id, blocks by group and claim; without a gate, READs fail', async () => {
    const { reader, holder } = openPair();
    let asked: unknown = null;
    holder.transport.setHandlers({
      gate: (requestId, blockIds, claim) => {
        asked = { requestId, blockIds, claim };
        return { allow: false, outcome: 'declined', message: '' };
      },
    });
    await read(reader, holder, pairsOf([7, 3], [1, 2]), 'x');
    expect(asked).toEqual({
      requestId: 'x@holder',
      blockIds: [[7, 3]],
      claim: CLAIM,
    });
    const ungated = openPair({ handlers: {} });
    const result = await read(ungated.reader, ungated.holder, some);
    expect(result).toMatchObject({ outcome: 'failed', message: 'the holder is not ready to serve reads.' });
  });
});

describe('a READ fails', () => {
  it('when a gather fails, and its pins and slots are released', async () => {
    const { reader, holder } = openPair();
    holder.memory.onGather = (_group, ids) => {
      if (ids.includes(5)) throw new Error('device lost');
    };
    const result = await read(reader, holder, some);
    expect(result.outcome).toBe('failed');
    expect(result.message).toContain('device lost');
    expect(holder.pins).toEqual({ held: 0, finished: 1 });
    await turns();
    expect(holder.memory.gathersInFlight).toBe(0);
    expect(holder.transport.slotsInUse()).toBe(0);
  });

  it('when a gather fails, but its blocks stay pinned until the other gathers have read theirs', async () => {
    const { reader, holder } = openPair({ chunkBytes: 96 });
    let go = () => {};
    holder.memory.onGather = (_group, ids) => {
      if (ids.includes(6)) throw new Error('device lost');
      return new Promise<void>((resolve) => {
        go = resolve;
      });
    };
    const result = read(reader, holder, pairsOf([5, 6], [1, 2]));
    await turns(40);
    expect(holder.pins).toEqual({ held: 1, finished: 0 });
    go();
    expect((await result).outcome).toBe('failed');
    expect(holder.pins).toEqual({ held: 0, finished: 1 });
  });

  for (const step of ['onStage', 'onCommit'] as const) {
    it(`when the reader's ${step} fails; the holder stops, and the next READ succeeds`, async () => {
      const { reader, holder } = openPair({ chunkBytes: 96, slots: 1 });
      let calls = 0;
      reader.memory[step] = () => {
        calls += 1;
        if (calls === 3) throw new Error('out of memory');
      };
      const result = await read(reader, holder, pairsOf(range(1, 30), range(1, 30)));
      expect(result.outcome).toBe('failed');
      expect(result.message).toContain('out of memory');
      await turns(40);
      expect(holder.pins).toEqual({ held: 0, finished: 1 });
      expect(holder.memory.gathers).toBeLessThan(30);
      expect(holder.transport.slotsInUse()).toBe(0);
      expect(reader.memory.stagesInFlight).toBe(0);
      expect((await read(reader, holder, some)).outcome).toBe('done');
    });
  }

  it('only once none of its copies can still write into blocks', async () => {
    const { reader, holder } = openPair({ chunkBytes: 96 });
    const waiting: (() => void)[] = [];
    let calls = 0;
    reader.memory.onCommit = () => {
      calls += 1;
      if (calls === 2) throw new Error('broken');
      return new Promise<void>((resolve) => waiting.push(resolve));
    };
    let ended = false;
    const result = read(reader, holder, some).then((r) => {
      ended = true;
      return r;
    });
    await turns(60);
    expect(calls).toBeGreaterThanOrEqual(2);
    expect(ended).toBe(false);
    for (const go of waiting) go();
    expect((await result).outcome).toBe('failed');
  });

  it('when a bit is flipped in the slab and checksums are on', async () => {
    const flip = (bytes: Uint8Array, chunk: { index: number }) => {
      if (chunk.index === 2) bytes[17]! ^= 4;
    };
    const { reader, holder } = openPair({ beforeChunkPosted: flip });
    const result = await read(reader, holder, some);
    expect(result.outcome).toBe('failed');
    expect(result.message).toContain('checksum differs in chunk 2');
    // Control: without checksums, the same flip goes unnoticed.
    const blind = openPair({ beforeChunkPosted: flip, checksum: false });
    expect((await read(blind.reader, blind.holder, some)).outcome).toBe('done');
    expect(differing(blind.reader.memory, blind.holder.memory, some).length).toBe(1);
  });

  it('when it names blocks that do not exist at one of the ends, or the null block', async () => {
    const { reader, holder } = openPair();
    const message = async (pairs: typeof some) => {
      const result = await read(reader, holder, pairs);
      expect(result.outcome).toBe('failed');
      return result.message;
    };
    expect(await message(pairsOf([40], [1]))).toContain('block 40 of group 0');
    expect(await message(pairsOf([0], [1]))).toContain('block 0 of group 0');
    expect(await message(pairsOf([1], [40]))).toContain('local block 40 of group 0');
    expect(await message(pairsOf([1], [0]))).toContain('local block 0 of group 0');
    expect(await message(pairsOf([1], [1], 3))).toContain('group 3');
  });

  it('when there is no engine at the address, or a different one', async () => {
    const { reader, holder } = openPair();
    const nobody = { ...holder, address: { ...holder.address, port: 1 } };
    expect((await read(reader, nobody, some)).message).toContain(
      'no engine is known at localhost:1 (known: localhost:',
    );
    const other = { ...holder, address: { ...holder.address, engineId: 'another' } };
    const result = await read(reader, other, some);
    expect(result).toMatchObject({ outcome: 'failed' });
    expect(result.message).toContain("expected engine 'another'");
    expect(result.message).toContain("found 'holder'");
    // Asking for the wrong engine does not break the connection to the right one.
    expect((await read(reader, holder, some)).outcome).toBe('done');
  });
});

describe("a READ ends as 'dead'", () => {
  /** A READ that is stuck half-way: some chunks stored, one gather waiting. */
  async function halfway() {
    const made = openPair({ chunkBytes: 96 });
    const { reader, holder } = made;
    let go: () => void = () => {};
    holder.memory.onGather = (_group, ids) => {
      if (ids.includes(5))
        return new Promise<void>((resolve) => {
          go = resolve;
        });
    };
    const result = read(reader, holder, some);
    await turns(40);
    expect(holder.pins.held).toBe(1);
    return { reader, holder, result, go: () => go() };
  }

  it('at once when the reader is told that the holder died', async () => {
    const { reader, result } = await halfway();
    reader.transport.peerDied('holder', 'device lost');
    expect(await result).toMatchObject({ outcome: 'dead', message: "engine 'holder' ended: device lost." });
  });

  it("when the holder's end of the channel closes, even without peerDied()", async () => {
    const { reader, holder, result } = await halfway();
    holder.transport.close();
    expect((await result).outcome).toBe('dead');
    expect((await read(reader, holder, some)).outcome).toBe('dead');
  });

  it("when the reader's engine dies; its blocks are unpinned once the device has finished with them", async () => {
    const { reader, holder, result, go } = await halfway();
    holder.transport.peerDied('reader');
    await turns();
    expect(holder.pins).toEqual({ held: 1, finished: 0 });
    go();
    await turns();
    expect(holder.pins).toEqual({ held: 0, finished: 1 });
    expect(holder.memory.gathersInFlight).toBe(0);
    expect((await result).outcome).toBe('dead');
    reader.transport.close();
  });

  it('when the holder closes, and leaves no timer running even if a gather never ends', async () => {
    const clock = new TestClock();
    const { reader, holder } = openPair({ clock });
    holder.memory.onGather = () => new Promise(() => {});
    const result = read(reader, holder, some);
    await turns();
    expect(holder.pins.held).toBe(1);
    holder.transport.close();
    expect((await result).outcome).toBe('dead');
    await turns();
    // No timer is pending.
    expect(clock.skip()).toBe(false);
  });

  it("when the reader's transport closes, as does every later READ", async () => {
    const { reader, holder, result } = await halfway();
    reader.transport.close();
    expect((await result).outcome).toBe('dead');
    expect((await read(reader, holder, some)).outcome).toBe('dead');
    await expect(reader.transport.clockOffsetSeconds(holder.address)).rejects.toMatchObject({
      code: 'engine_dead',
    });
  });

  it('when the channel closes during the handshake', async () => {
    const reader = makeEngine('reader');
    const { port1, port2 } = new MessageChannel();
    const holder = makeEngine('holder');
    reader.transport.addPeer(port1, holder.address);
    const result = read(reader, holder, some);
    await turns();
    port2.close();
    expect((await result).outcome).toBe('dead');
  });

  it('only for the old connection: a READ over a new one succeeds', async () => {
    const { reader, holder, result, go } = await halfway();
    reader.transport.peerDied('holder');
    await result;
    connect(reader, holder);
    holder.memory.onGather = null;
    go();
    const again = await read(reader, holder, some);
    expect(again).toMatchObject({ outcome: 'done', blocks: 10 });
    expect(differing(reader.memory, holder.memory, some)).toEqual([]);
    await turns();
    expect(holder.pins.held).toBe(0);
    expect(holder.transport.slotsInUse()).toBe(0);
  });

  it('without affecting READs from other engines', async () => {
    const { reader, result } = await halfway();
    const third = makeEngine('third');
    connect(reader, third);
    const other = read(reader, third, pairsOf(range(1, 9), range(20, 9)));
    reader.transport.peerDied('holder');
    expect((await result).outcome).toBe('dead');
    expect((await other).outcome).toBe('done');
    third.transport.close();
  });
});

describe('notifications', () => {
  it("reach the holder with the sender's engine id", async () => {
    const { reader, holder } = openPair();
    const heard: unknown[] = [];
    holder.transport.setHandlers({
      onNotification: (from, notification) => heard.push([from, notification]),
    });
    const done = { kind: 'done_reading', requestId: 'r1', held: CLAIM.held } as const;
    const beat = { kind: 'heartbeat', holds: [{ requestId: 'r1', held: CLAIM.held }] } as const;
    reader.transport.notify(holder.address, done);
    reader.transport.notify(holder.address, beat);
    await turns();
    expect(heard).toEqual([
      ['reader', done],
      ['reader', beat],
    ]);
  });

  it('that cannot be posted are reported, not thrown', async () => {
    const { reader, holder } = openPair();
    const failures: string[] = [];
    const heard: unknown[] = [];
    reader.transport.setHandlers({ onNotifyFailed: (_remote, _what, message) => failures.push(message) });
    holder.transport.setHandlers({ onNotification: (...what) => heard.push(what) });
    const done = { kind: 'done_reading', requestId: 'r1', held: CLAIM.held } as const;
    reader.transport.notify({ ...holder.address, port: 1 }, done);
    reader.transport.notify({ ...holder.address, engineId: 'another' }, done);
    await turns();
    reader.transport.peerDied('holder');
    reader.transport.notify(holder.address, done);
    await turns();
    expect(failures.map((message) => message.slice(0, 20))).toEqual([
      'no engine is known a',
      "expected engine 'ano",
      "engine 'holder' ende",
    ]);
    expect(heard).toEqual([]);
  });
});
