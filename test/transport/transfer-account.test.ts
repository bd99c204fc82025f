/** The account of one READ: which chunks are valid, how it ends, and where its time went. */
import { describe, expect, it } from 'vitest';
import type { ChunkMessage } from '../../src/transport/messages.ts';
import { Transfer } from '../../src/transport/transfer.ts';
import { CLAIM, pairsOf } from './helpers.ts';

const remote = { engineId: 'h', host: 'localhost', port: 1 };
const BYTES = [10, 20];

function transfer({ streamed = false, now = (): number => 500 } = {}) {
  const pairs = [...pairsOf([1, 2, 3], [11, 12, 13]), ...pairsOf([4], [14], 1)];
  const request = { remote, remoteRequestId: 'r', claim: CLAIM, pairs, requestId: 'q', streamed };
  return new Transfer('t', request, 2, 100, now);
}

function chunk(index: number, changes: Partial<ChunkMessage> = {}): ChunkMessage {
  const [first, count, group] = index === 0 ? [0, 2, 0] : index === 1 ? [2, 1, 0] : [0, 1, 1];
  const times = {
    waitStart: 100,
    gatherStart: 107,
    submitted: 109,
    readbackStart: 120,
    mapped: 133,
    slabInStart: 140,
    slabInEnd: 151,
    link: null,
  };
  const which = { kind: 'chunk', epoch: 1, transferId: 't', slot: 0, checksum: null } as const;
  return {
    ...which,
    index,
    group,
    first,
    count,
    byteLength: count * BYTES[group]!,
    times,
    descriptors: 2,
    ...changes,
  };
}

function take(account: Transfer, ...chunks: ChunkMessage[]): void {
  for (const each of chunks) {
    expect(account.takeChunk(each, BYTES)).toHaveProperty('localIds');
    account.chunkDone(each, true);
  }
}

describe('a chunk', () => {
  it('is stored once, in the local blocks of its place in the READ', () => {
    const account = transfer();
    expect(account.takeChunk(chunk(1), BYTES)).toEqual({ localIds: [13] });
    expect(account.takeChunk(chunk(0), BYTES)).toEqual({ localIds: [11, 12] });
    expect(account.takeChunk(chunk(2), BYTES)).toEqual({ localIds: [14] });
    expect(account.takeChunk(chunk(0), BYTES)).toBe('seen');
  });

  it.each<[Partial<ChunkMessage>, string]>([
    [{ first: 2 }, 'chunk 0 names blocks 2 to 3 of group 0'],
    [{ group: 7 }, 'chunk 0 names blocks 0 to 1 of group 7'],
    [{ count: 0, byteLength: 0 }, 'chunk 0 names blocks 0 to -1 of group 0'],
    [{ byteLength: 21 }, 'chunk 0 has 21 bytes for 2 block(s) of 10'],
  ])('is rejected with the reason if it is invalid: %o', (changes, wrong) => {
    expect(transfer().takeChunk(chunk(0, changes), BYTES)).toEqual({ wrong });
  });
});

describe("a READ's time", () => {
  it('is summed by stage over chunks; only the first chunk counts as waiting', async () => {
    const account = transfer();
    const link = { start: 151, arrival: 160 };
    const linked = { ...chunk(0).times, link };
    take(account, chunk(0, { times: linked }), chunk(1), chunk(2, { times: linked }));
    account.allPosted();
    const { stages, ...result } = await account.result;
    expect(stages).toMatchObject({ waitMs: 18, gatherMs: 6, readbackMs: 39, slabInMs: 33, linkMs: 18 });
    expect(result).toMatchObject({ outcome: 'done', blocks: 4, chunks: 3, descriptors: 6, wallMs: 400 });
    expect(result.movingMs).toBeNull();
  });

  it('counts as moving, if it is streamed, while any of its bytes are on their way', async () => {
    const account = transfer({ streamed: true, now: () => 145 });
    take(account, chunk(0), chunk(1), chunk(2));
    account.allPosted();
    expect((await account.result).movingMs).toBe(2 + 25);
  });

  it('and its blocks do not include a chunk that was not committed', async () => {
    const account = transfer();
    account.takeChunk(chunk(0), BYTES);
    account.chunkDone(chunk(0), false);
    account.end('failed', 'no room');
    const { stages, blocks, descriptors } = await account.result;
    expect({ blocks, descriptors, waitMs: stages.waitMs, gatherMs: stages.gatherMs }).toEqual({
      blocks: 0,
      descriptors: 0,
      waitMs: 0,
      gatherMs: 0,
    });
  });
});

describe("a READ's end", () => {
  it('comes when no chunk is in progress, and the first outcome counts', async () => {
    const account = transfer();
    let settled = false;
    void account.result.then(() => {
      settled = true;
    });
    account.takeChunk(chunk(0), BYTES);
    account.end('declined', 'dropped');
    account.end('failed', 'later');
    account.lose('later still');
    await null;
    expect({ settled, ended: account.ended, lost: account.lost }).toEqual({
      settled: false,
      ended: true,
      lost: false,
    });
    account.chunkDone(chunk(0), true);
    expect(await account.result).toMatchObject({ outcome: 'declined', message: 'dropped', blocks: 2 });
  });

  it('without all blocks counts as lost, so that the READ may be repeated', async () => {
    const account = transfer();
    take(account, chunk(0));
    account.allPosted();
    expect(await account.result).toMatchObject({
      outcome: 'failed',
      message: 'the holder sent 2 of 4 blocks.',
    });
    expect(account.lost).toBe(true);
  });

  it('depends on the holder until it has posted everything or the outcome is decided', () => {
    const posted = transfer();
    expect(posted.awaitsHolder).toBe(true);
    posted.takeChunk(chunk(0), BYTES);
    posted.allPosted();
    expect(posted.awaitsHolder).toBe(false);
    const ended = transfer();
    ended.takeChunk(chunk(0), BYTES);
    ended.end('failed', 'x');
    expect(ended.awaitsHolder).toBe(false);
    const lost = transfer();
    lost.lose('silence');
    expect({ lost: lost.lost, awaits: lost.awaitsHolder }).toEqual({ lost: true, awaits: false });
  });
});
