/**
 * Random READs in both directions at once over tiny rings, of held and streamed blocks, with one to three groups of random sizes
 * and windows. Faults are random too: delays, drops, failures, aborts, deaths, and lost or duplicate messages. Every transfer
 * must end, 'done' must mean equal bytes, and no pin, slot or staging buffer may be left.
 */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { TransferOutcome } from '../../src/engine/kv-connector.ts';
import { NULL_BLOCK } from '../../src/engine/types.ts';
import type { BlockStream, TransferResult } from '../../src/transport/types.ts';
import { TestClock } from '../clock.ts';
import { CLAIM, connect, differing, makeEngine, type TestEngine, TestMemory, turns } from './helpers.ts';

const BLOCKS = 24;
/** First local block of the readers: no block is both read and written, so that equality is well defined. */
const FIRST_LOCAL = 12;
/** Number of blocks of the sequence being read, in each group: ids 1 to 11. */
const PLACES = FIRST_LOCAL - 1;

/** `window`: how many blocks at the sequence's end the group has kept; null: all. */
const groupList = fc.array(
  fc.record({
    bytes: fc.integer({ min: 1, max: 16 }).map((words) => 4 * words),
    window: fc.option(fc.integer({ min: 1, max: PLACES })),
  }),
  { minLength: 1, maxLength: 3 },
);

/** A READ has its own local blocks, as the block pool guarantees; remote blocks are shared by all READs. */
const blockList = fc.array(fc.record({ group: fc.nat(2), remote: fc.integer({ min: 1, max: PLACES }) }), {
  minLength: 1,
  maxLength: 8,
});

const event = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({ kind: fc.constant('read' as const), way: fc.nat(1), blocks: blockList }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('stream' as const),
      way: fc.nat(1),
      blocks: blockList,
      cancelAfter: fc.option(fc.nat(40)),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('lose' as const),
      count: fc.integer({ min: 1, max: 4 }),
      copies: fc.constantFrom(0, 2),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('turns' as const), count: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('drop' as const), way: fc.nat(1) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('break' as const), way: fc.nat(1), step: fc.nat(2) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('die' as const), way: fc.nat(1) }) },
);

const scenario = fc.record({
  groups: groupList,
  slots: fc.integer({ min: 1, max: 3 }),
  chunkBytes: fc.integer({ min: 1, max: 120 }),
  ring: fc.integer({ min: 1, max: 3 }),
  link: fc.option(fc.record({ bytesPerSecond: fc.constantFrom(1e3, 1e6), latencyMs: fc.constantFrom(0, 3) })),
  delays: fc.array(fc.nat(4), { minLength: 1, maxLength: 20, size: 'max' }),
  events: fc.array(event, { minLength: 1, maxLength: 25, size: 'max' }),
});

const NEVER = new AbortController().signal;

async function play({
  groups,
  slots,
  chunkBytes,
  ring,
  link,
  delays,
  events,
}: typeof scenario extends fc.Arbitrary<infer T> ? T : never) {
  const shape = { blockBytes: groups.map(({ bytes }) => bytes), numBlocks: groups.map(() => BLOCKS) };
  /** Maps any drawn block to one that its group still has. */
  const kept = (drawn: { group: number; remote: number }): { group: number; remote: number } => {
    const group = drawn.group % groups.length;
    const window = groups[group]!.window ?? PLACES;
    return { group, remote: PLACES - ((PLACES - drawn.remote) % window) };
  };
  const clock = new TestClock();
  let step = 0;
  const delay = () => clock.sleep(delays[step++ % delays.length]!);
  const make = (name: string, seed: number): TestEngine => {
    const memory = new TestMemory({ ...shape, ring, delay }).fillRandom(seed);
    const spec = link && { name: 'test', ...link };
    return makeEngine(name, { memory, clock, slots, chunkBytes, link: spec });
  };
  const engines = [make('a', 1), make('b', 2)] as const;
  let toLose = 0;
  let lost = false;
  let copies = 0;
  const lose = () => (toLose > 0 && toLose-- > 0 ? copies : 1);
  connect(engines[0], engines[1], lose);
  /** A sequence of blocks 1, 2, ... that grows while a reader waits for it. */
  const streamOf = (pins: TestEngine['pins']): BlockStream => {
    pins.held += 1;
    let numBlocks = 0;
    const blockIds = groups.map(({ window }) =>
      Array.from({ length: PLACES }, (_, i) => (i < PLACES - (window ?? PLACES) ? NULL_BLOCK : i + 1)),
    );
    return {
      async ready(index, signal) {
        while (numBlocks <= index && !signal.aborted) {
          await delay();
          numBlocks += 1 + (step % 3);
        }
        return signal.aborted ? null : { blockIds, numBlocks: Math.min(numBlocks, PLACES), revoked: NEVER };
      },
      finished: () => {
        pins.held -= 1;
      },
    };
  };
  for (const { transport, pins } of engines) transport.setHandlers({ streamGate: () => streamOf(pins) });
  const gates = engines.map(({ pins }) => () => {
    pins.held += 1;
    return {
      allow: true as const,
      finished: () => {
        pins.held -= 1;
        pins.finished += 1;
      },
    };
  });

  const reads: Promise<void>[] = [];
  const ended: TransferOutcome[] = [];
  // Free local blocks, by reader and group. Each pair of a READ takes one; pairs without a free one are skipped.
  const free = engines.map(() =>
    groups.map(() => Array.from({ length: BLOCKS - FIRST_LOCAL }, (_, i) => FIRST_LOCAL + i)),
  );
  let disturbed = false;

  for (const each of events) {
    const way = 'way' in each ? each.way : 0;
    const [reader, holder] = way === 0 ? engines : [engines[1], engines[0]];
    if (each.kind === 'read' || each.kind === 'stream') {
      const pools = free[way]!;
      const pairs = each.blocks.map(kept).flatMap(({ group, remote }) => {
        const local = pools[group]!.pop();
        return local === undefined ? [] : [{ group, remote, local }];
      });
      const request = { remote: holder.address, remoteRequestId: 'r', claim: CLAIM, pairs, requestId: 'q' };
      const streamed = () => {
        const client = new AbortController();
        const { signal } = client;
        if (each.kind === 'stream' && each.cancelAfter !== null) {
          disturbed = true;
          void turns(each.cancelAfter).then(() => client.abort());
        }
        // Ascending, without duplicates: a block drawn twice is read once, and the other local block stays unchanged.
        const places = new Map(pairs.map((pair) => [`${pair.group}:${pair.remote}`, pair]));
        const ascending = [...places.values()].toSorted((a, b) => a.remote - b.remote);
        pairs.splice(0, pairs.length, ...ascending);
        const indexes = pairs.map((pair) => ({ ...pair, remote: pair.remote - 1 }));
        return { ...request, pairs: indexes, streamed: true, signal };
      };
      const check = (result: TransferResult) => {
        ended.push(result.outcome);
        if (result.outcome === 'done') {
          expect(differing(reader.memory, holder.memory, pairs)).toEqual([]);
          const bytes = pairs.reduce((sum, { group }) => sum + shape.blockBytes[group]!, 0);
          expect(result).toMatchObject({ bytes, blocks: pairs.length });
        }
        // A transfer that has ended writes no more: its blocks may be reused from here on.
        for (const { group, local } of pairs) {
          reader.memory.block(group, local).fill(0xee);
          pools[group]!.push(local);
        }
      };
      reads.push(reader.transport.read(each.kind === 'read' ? request : streamed()).then(check));
    } else if (each.kind === 'turns') {
      await turns(each.count);
      clock.skip();
    } else if (each.kind === 'lose') {
      disturbed = true;
      toLose += each.count;
      copies = each.copies;
      lost = true;
    } else if (each.kind === 'drop') {
      disturbed = true;
      const refuse = { allow: false as const, outcome: 'declined' as const, message: 'dropped' };
      holder.transport.setHandlers({ gate: () => refuse });
      await turns(5);
      holder.transport.setHandlers({ gate: gates[1 - way]! });
    } else if (each.kind === 'break') {
      disturbed = true;
      const memory = [holder.memory, reader.memory, reader.memory][each.step]!;
      const hook = (['onGather', 'onStage', 'onCommit'] as const)[each.step]!;
      memory[hook] = () => {
        memory[hook] = null;
        throw new Error('broken once');
      };
    } else {
      disturbed = true;
      reader.transport.peerDied(holder.address.engineId);
      connect(engines[0], engines[1], lose);
    }
  }

  let settled = false;
  const all = Promise.all(reads).then(() => {
    settled = true;
  });
  for (let i = 0; i < 5_000 && !settled; i++) {
    await turns(2);
    clock.skip();
  }
  expect(settled, `${reads.length - ended.length} of ${reads.length} transfers hang`).toBe(true);
  await all;
  for (let i = 0; i < 30; i++) {
    await turns(2);
    clock.skip();
  }
  if (!disturbed) expect(new Set(ended)).toEqual(new Set(reads.length > 0 ? ['done'] : []));
  for (const { transport, memory, pins } of engines) {
    expect(pins.held).toBe(0);
    // A lost credit costs its slot until the next handshake.
    if (!lost) expect(transport.slotsInUse()).toBe(0);
    expect(memory.gathersInFlight).toBe(0);
    expect(memory.stagesInFlight).toBe(0);
    transport.close();
  }
  return ended;
}

it("under random faults, every transfer ends, 'done' means equal bytes, and nothing is left behind", async () => {
  const seen = new Set<TransferOutcome>();
  await fc.assert(
    fc.asyncProperty(scenario, async (given) => {
      for (const outcome of await play(given)) seen.add(outcome);
    }),
    { numRuns: 250, seed: 20_261_120 },
  );
  // The faults had an effect.
  expect(seen).toEqual(new Set<TransferOutcome>(['done', 'declined', 'failed', 'dead']));
});
