/** Lost messages: each costs a timeout, but no READ, handshake or hold. */
import { describe, expect, it } from 'vitest';
import type { PeerMessage } from '../../src/transport/messages.ts';
import type { BlockStream } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';
import {
  CLAIM,
  connect,
  differing,
  makeEngine,
  pairsOf,
  range,
  read,
  type TestEngine,
  TestMemory,
  turns,
  withSkippedTime,
} from './helpers.ts';

const pairs = pairsOf(range(1, 10), range(1, 10));

/** Reader and holder with one clock; `lose` decides which messages are lost. */
function losing(lose: (message: PeerMessage) => boolean, silenceMs?: number) {
  return wired((message) => (lose(message) ? 0 : 1), silenceMs);
}

function wired(copies: (message: PeerMessage) => number, silenceMs?: number) {
  const clock = new TestClock();
  const sizes = { clock, slots: 2, chunkBytes: 200, ...(silenceMs ? { silenceMs } : {}) };
  const reader = makeEngine('reader', { memory: new TestMemory(), ...sizes });
  const holder = makeEngine('holder', sizes);
  connect(reader, holder, copies);
  return { clock, reader, holder };
}

/** Loses the first `count` messages of this kind. */
function firstOf(kind: PeerMessage['kind'], count: number) {
  let left = count;
  return (message: PeerMessage) => message.kind === kind && left-- > 0;
}

async function nothingIsLeft({ reader, holder }: { reader: TestEngine; holder: TestEngine }) {
  await turns();
  expect(holder.pins.held).toBe(0);
  for (const { transport, memory } of [reader, holder]) {
    expect(transport.slotsInUse()).toBe(0);
    expect(memory.gathersInFlight + memory.stagesInFlight).toBe(0);
    transport.close();
  }
}

describe('a READ succeeds despite lost messages', () => {
  it.each([
    ['hello', 1],
    ['hello', 2],
    ['welcome', 1],
    ['read', 1],
    ['chunk', 1],
    ['credit', 1],
    ['credit', 2],
    ['read_ended', 1],
    ['read_ended', 2],
  ] as const)("when '%s' is lost %i time(s)", async (kind, count) => {
    const nodes = losing(firstOf(kind, count));
    const { reader, holder, clock } = nodes;
    const result = await withSkippedTime(clock, read(reader, holder, pairs));
    expect(result).toMatchObject({ outcome: 'done', blocks: 10 });
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
    const again = await withSkippedTime(clock, read(reader, holder, pairs));
    expect(again.outcome).toBe('done');
    if (kind !== 'credit' || count > 1) await nothingIsLeft(nodes);
  });

  it("when it is streamed and its first 'stream' message is lost", async () => {
    const { reader, holder, clock } = losing(firstOf('stream', 1));
    const stream: BlockStream = {
      ready: async () => ({ blockIds: [range(1, 10)], numBlocks: 10, revoked: new AbortController().signal }),
      finished: () => {},
    };
    holder.transport.setHandlers({ streamGate: () => stream });
    const result = await withSkippedTime(
      clock,
      reader.transport.read({
        ...{ remote: holder.address, remoteRequestId: 'r', claim: CLAIM, requestId: 'q' },
        ...{ pairs: pairsOf(range(0, 10), range(1, 10)), streamed: true },
      }),
    );
    expect(result.outcome).toBe('done');
    expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
  });
});

describe('if every message of a kind is lost', () => {
  it.each(['hello', 'read'] as const)("('%s'), the READ fails after three attempts of 20 s", async (kind) => {
    const { reader, holder, clock } = losing((message) => message.kind === kind);
    const start = clock.now();
    const result = await withSkippedTime(clock, read(reader, holder, pairs));
    expect(result).toMatchObject({ outcome: 'failed', message: expect.stringContaining('20 s') });
    expect(clock.now() - start).toBe(60_000);
  });

  it.each(['hello', 'read', 'credit'] as const)(
    "('%s'), the READ fails after attempts of the configured silence timeout",
    async (kind) => {
      const { reader, holder, clock } = losing((message) => message.kind === kind, 3000);
      const start = clock.now();
      const result = await withSkippedTime(clock, read(reader, holder, pairs));
      expect(result.outcome).toBe('failed');
      // Chunks posted in the first half of the wait for a slot make each attempt half a timeout longer.
      expect(clock.now() - start).toBe(kind === 'credit' ? 13_500 : 9000);
    },
  );

  it("('hello'), the clock offset and a notification fail instead of waiting", async () => {
    const { reader, holder, clock } = losing(({ kind }) => kind === 'hello');
    const failed: string[] = [];
    reader.transport.setHandlers({ onNotifyFailed: (_remote, _what, why) => failed.push(why) });
    const { held } = CLAIM;
    reader.transport.notify(holder.address, { kind: 'done_reading', requestId: 'r', held });
    const offset = reader.transport.clockOffsetSeconds(holder.address);
    await expect(withSkippedTime(clock, offset)).rejects.toThrow('no answer');
    expect(failed).toHaveLength(1);
  });
});

it("a READ completes though the holder's device takes minutes", async () => {
  const { reader, holder, clock } = losing(() => false);
  holder.memory.onGather = () => clock.sleep(300_000);
  const result = await withSkippedTime(clock, read(reader, holder, pairs));
  expect(result.outcome).toBe('done');
  expect(holder.pins.finished).toBe(1);
});

it("a READ completes though the reader's device takes minutes after the holder has posted everything", async () => {
  const { reader, holder, clock } = losing(() => false);
  reader.memory.onCommit = () => clock.sleep(300_000);
  const few = pairsOf([1, 2], [1, 2]);
  expect((await withSkippedTime(clock, read(reader, holder, few))).outcome).toBe('done');
  expect(holder.pins.finished).toBe(1);
});

it.each([
  ["a chunk's time on the link", 40, 0],
  ["the link's latency", 1e9, 90_000],
])('a READ completes though %s outlasts the timeout', async (_what, bytesPerSecond, latencyMs) => {
  const { reader, holder, clock } = losing(() => false, 1000);
  holder.transport.setLink({ name: 'slow', bytesPerSecond, latencyMs });
  const result = await withSkippedTime(clock, read(reader, holder, pairs));
  expect(result).toMatchObject({ outcome: 'done', blocks: 10 });
  expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
});

it("a READ that waits for a slot completes though the holder's device takes minutes", async () => {
  const { reader, holder, clock } = losing(() => false);
  holder.memory.onGather = () => clock.sleep(300_000);
  const others = pairsOf(range(11, 10), range(11, 10));
  const both = Promise.all([read(reader, holder, pairs), read(reader, holder, others, 'other')]);
  const results = await withSkippedTime(clock, both);
  expect(results.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
  expect(holder.pins.finished).toBe(2);
});

it('a clock jump is not taken for silence', async () => {
  const { reader, holder, clock } = losing(() => false);
  let go = () => {};
  holder.memory.onGather = () =>
    new Promise<void>((resolve) => {
      go = resolve;
      holder.memory.onGather = null;
    });
  const reading = read(reader, holder, pairs);
  await turns();
  clock.advance(3_600_000);
  await turns();
  go();
  expect((await withSkippedTime(clock, reading)).outcome).toBe('done');
  expect(holder.pins.finished).toBe(1);
});

it('a READ from a replaced engine fails, and notifications to it do not reach its replacement', async () => {
  const clock = new TestClock();
  const reader = makeEngine('reader', { clock, memory: new TestMemory() });
  const former = makeEngine('holder', { clock });
  connect(reader, former);
  expect((await read(reader, former, pairs)).outcome).toBe('done');
  former.transport.close();
  await turns();
  const heard: unknown[] = [];
  const later = makeEngine('holder-life2', { clock, port: former.address.port });
  later.transport.setHandlers({ onNotification: (...news) => heard.push(news) });
  connect(reader, later);
  const result = await read(reader, former, pairs);
  expect(result).toMatchObject({ outcome: 'failed', message: expect.stringContaining('holder-life2') });
  const { held } = CLAIM;
  reader.transport.notify(former.address, { kind: 'done_reading', requestId: 'r', held });
  await turns();
  expect(heard).toEqual([]);
  expect(later.pins.finished).toBe(0);
});

it.each(['hello', 'welcome', 'read', 'chunk', 'credit', 'read_ended', 'all'] as const)(
  'duplicate messages have no effect: %s',
  async (kind) => {
    const nodes = wired((message) => (kind === 'all' || message.kind === kind ? 2 : 1));
    const { reader, holder } = nodes;
    // Gives a slot that is freed too early time to be overwritten while it is still being read.
    reader.memory.onStage = () => turns(3);
    const others = pairsOf(range(11, 10), range(11, 10));
    const results = await Promise.all([read(reader, holder, pairs), read(reader, holder, others, 'other')]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
    expect(differing(reader.memory, holder.memory, [...pairs, ...others])).toEqual([]);
    await turns(60);
    await nothingIsLeft(nodes);
  },
);
