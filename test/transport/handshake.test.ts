/** Which engines may exchange blocks, and the reader's side of the handshake, with answers made up by the test. */
import { describe, expect, it } from 'vitest';
import { compatibilityHash, incompatibility } from '../../src/transport/compatibility.ts';
import { Handshake } from '../../src/transport/handshake.ts';
import type { ToHolder, WelcomeMessage } from '../../src/transport/messages.ts';
import type { EngineIdentity } from '../../src/transport/types.ts';
import { settled, TestClock } from '../clock.ts';
import { FACTORS } from './helpers.ts';

const side = (changes: Partial<EngineIdentity> = {}, factors: Partial<typeof FACTORS> | null = {}) => {
  const its = factors && { ...FACTORS, ...factors };
  return {
    identity: {
      ...{ engineId: 'p', host: 'localhost', port: 1, blockSize: 16, blockBytes: [96, 32] },
      compatibilityHash: its ? compatibilityHash(its) : 'abcdefghijklmnop',
      ...changes,
    },
    factors: its,
  };
};

describe('incompatibility of two engines', () => {
  it.each([
    ['nothing for equal engines', side(), null],
    ['different block sizes', side({ blockSize: 8 }), 'block size differs (16 and 8 tokens)'],
    [
      'different block bytes of one group',
      side({ blockBytes: [96, 48] }),
      'block bytes by group differ (96, 32 and 96, 48)',
    ],
    [
      'different KV dtypes',
      side({ blockBytes: [192, 64] }, { kvDtype: 'f32' as never }),
      'differ (96, 32 and 192, 64), kvDtype is f16 here and f32 there; give both engines the same model and KV dtype.',
    ],
    ['a group that only one of them has', side({ blockBytes: [96, 32, 8] }), 'block bytes by group differ'],
    [
      'different models',
      side({}, { model: 'tiny@1' as never }),
      'model is nano@1 here and tiny@1 there; give',
    ],
    [
      'different hashes if one of them sent no factors',
      side({}, null),
      /: compatibility hash is [0-9a-f]{12}… here and abcdefghijkl… there;/,
    ],
  ] as const)('reports %s', (_, theirs, why) => {
    const told = incompatibility(side(), theirs, true);
    if (why === null) expect(told).toBeNull();
    else expect(told).toMatch(why);
  });

  it('ignores the hash if it is not enforced, but not the block size', () => {
    expect(incompatibility(side(), side({}, null), false)).toBeNull();
    expect(incompatibility(side(), side({ blockSize: 8 }), false)).not.toBeNull();
  });

  it('names the differing factors only if both engines sent theirs', () => {
    const silent = { ...side({}, null), identity: side({ compatibilityHash: 'z'.repeat(20) }).identity };
    for (const [own, theirs] of [
      [side(), silent],
      [silent, side()],
    ] as const)
      expect(incompatibility(own, theirs, true)).toMatch(/: compatibility hash is/);
  });
});

describe('a handshake', () => {
  function start() {
    const clock = new TestClock(1000);
    const sent: Extract<ToHolder, { kind: 'hello' }>[] = [];
    let epoch = 0;
    const handshake = new Handshake({
      ...{ own: side(), enforceHandshakeCompat: true, maxChunkBytes: 64, clock, silenceMs: 500 },
      nextEpoch: () => ++epoch,
      post: (message) => {
        if (message.kind === 'hello') sent.push(message);
      },
    });
    const welcome = (changes: Partial<WelcomeMessage> = {}): void =>
      handshake.onWelcome({
        ...{ kind: 'welcome', epoch, ...side({ engineId: 'd' }), slab: new SharedArrayBuffer(64) },
        ...{ slots: 2, slotBytes: 32, now: 1000, ...changes },
      });
    /** Receives the result once there is one. */
    const watch = (promise: ReturnType<Handshake['connect']>) => {
      const seen: Awaited<typeof promise>[] = [];
      void promise.then((result) => seen.push(result));
      return seen;
    };
    /** Advances the clock in small steps, because a clock jump is not taken for silence. */
    const pass = async (ms: number) => {
      for (let left = ms; left > 0; left -= 50) {
        clock.advance(50);
        await settled();
      }
    };
    return { clock, sent, handshake, welcome, watch, pass };
  }

  it('is shared by concurrent callers, lasts until forgotten, and measures the clock offset', async () => {
    const { clock, sent, handshake, welcome } = start();
    const both = [handshake.connect(), handshake.connect()];
    clock.advance(40);
    welcome({ now: 5000 });
    for (const result of await Promise.all(both))
      expect(result).toMatchObject({
        ok: true,
        connected: { epoch: 1, slots: 2, clockOffsetMs: 5000 - 1020 },
      });
    expect(handshake.connected?.identity.engineId).toBe('d');
    expect(await handshake.connect()).toMatchObject({ ok: true });
    expect(sent).toHaveLength(1);
    handshake.forget();
    expect(handshake.connected).toBeNull();
    void handshake.connect();
    expect(sent).toHaveLength(2);
  });

  it('ignores unsolicited and duplicate answers, and those to an earlier attempt', async () => {
    const { sent, handshake, welcome, watch, pass } = start();
    welcome();
    expect(handshake.connected).toBeNull();
    const seen = watch(handshake.connect());
    await pass(500);
    expect(sent.map(({ epoch }) => epoch)).toEqual([1, 2]);
    welcome({ epoch: 1 });
    await settled();
    expect([handshake.connected, seen]).toEqual([null, []]);
    welcome({ epoch: 2 });
    await settled();
    expect(seen).toMatchObject([{ ok: true, connected: { epoch: 2 } }]);
    // A second answer changes nothing.
    const { connected } = handshake;
    welcome({ epoch: 2 });
    expect(handshake.connected).toBe(connected);
  });

  it('fails after three silent attempts, and the next connect() starts again', async () => {
    const { sent, handshake, watch, pass } = start();
    const seen = watch(handshake.connect());
    await pass(1450);
    expect(seen).toEqual([]);
    await pass(50);
    const message = 'no answer to 3 handshakes, each within 0.5 s.';
    expect(seen).toEqual([{ ok: false, outcome: 'failed', message }]);
    expect(sent).toHaveLength(3);
    void handshake.connect();
    expect(sent).toHaveLength(4);
  });

  it.each([
    [{ slab: new ArrayBuffer(64) as never }, /slab: wanted shared memory/],
    [{ slots: 0 }, /is invalid: slots/],
    [side({ blockBytes: new Array<number>(2) }), /identity.blockBytes: wanted a list of whole numbers/],
    [{ slots: 3 }, /its slab has 64 bytes, not 3 x 32/],
    [side({ blockSize: 8 }), /block size differs/],
  ])('fails on an unusable welcome, and the next connect() starts again: %#', async (changes, message) => {
    const { sent, handshake, welcome } = start();
    const result = handshake.connect();
    welcome(changes);
    expect(await result).toEqual({ ok: false, outcome: 'failed', message: expect.stringMatching(message) });
    void handshake.connect();
    expect(sent).toHaveLength(2);
  });

  it("ends as 'dead' when the holder ends, as does every later one", async () => {
    const { sent, handshake, welcome } = start();
    const underWay = handshake.connect();
    handshake.end('it ended');
    const dead = { ok: false, outcome: 'dead', message: 'it ended' };
    expect(await underWay).toEqual(dead);
    expect(await handshake.connect()).toEqual(dead);
    handshake.forget();
    welcome();
    expect(await handshake.connect()).toEqual(dead);
    expect(sent).toHaveLength(1);
  });
});
