/** READs of a sequence that is still being computed: real worker sides and transport, memory instead of a GPU. */

import { describe, expect, it } from 'vitest';
import type { TestClock } from '../clock.ts';
import { range, TestMemory, turns } from '../transport/helpers.ts';
import {
  claimOf,
  hold as holdFor,
  LEASE_MS,
  lease,
  makeNodes,
  metadata,
  NEVER,
  type Node,
  nextOutput,
} from './nodes.ts';

const P_ID = 'r@prefill';

/** Default length of the prompt computed at P, in tokens. */
const PROMPT = 40;

/** D starts to read numBlocks of the sequence's blocks, from `first` on. Local blocks: 21 + first, 22 + first, ... */
function stream(d: Node, p: Node, numBlocks: number, { first = 0, numTokens = PROMPT } = {}) {
  const pairs = Array.from({ length: numBlocks }, (_, i) => ({
    group: 0,
    remote: first + i,
    local: 21 + first + i,
  }));
  const claim = { held: claimOf(numTokens), prompt: claimOf(numTokens) };
  const remote = { ...p.address, requestId: P_ID, claim, blocksExpiryTime: null };
  const recv = { remote, pairs, numTokens: numBlocks * 16, streamed: true as const };
  d.worker.startLoadKv(metadata({ reqsToRecv: new Map([['r', recv]]) }));
}

/** P reports these blocks, with KV for numTokens tokens. */
const computed = (p: Node, blockIds: number[], numTokens: number, promptTokens = PROMPT) => {
  const prompt = { tokenIds: range(0, promptTokens), cacheSalt: null };
  p.worker.startLoadKv(
    metadata({
      computed: new Map([[P_ID, { blockIds: [blockIds], numTokens, ...prompt }]]),
      reqsInBatch: new Set([P_ID]),
    }),
  );
};

const hold = (p: Node, blockIds: number[], clock: TestClock, promptTokens = PROMPT) => {
  const send = { blockIds: [blockIds], tokenIds: range(0, promptTokens), cacheSalt: null, ...lease(clock) };
  p.worker.startLoadKv(metadata({ reqsToSend: new Map([[P_ID, send]]) }));
};

/** Those of P's blocks whose content D has. */
const arrived = (d: Node, p: Node, blockIds: readonly number[], first = 0) =>
  blockIds.filter((id, i) => {
    const want = p.memory.block(0, id);
    return d.memory.block(0, 21 + first + i).every((byte, at) => byte === want[at]);
  });

describe('a streamed READ', () => {
  it('that comes before its request gets each block once it is full, and the last once P holds them', async () => {
    const { p, d, clock } = makeNodes();
    stream(d, p, 3);
    await turns();
    computed(p, [], 0);
    await turns();
    expect(p.memory.gathers).toBe(0);
    computed(p, [1, 2, 3], 40);
    await turns();
    expect(arrived(d, p, [1, 2, 3])).toEqual([1, 2]);
    expect(d.worker.getFinished().finishedRecving).toEqual([]);
    hold(p, [1, 2, 3], clock);
    expect((await nextOutput(d)).finishedRecving).toEqual(['r']);
    expect(arrived(d, p, [1, 2, 3])).toEqual([1, 2, 3]);
    expect(d.transfers[0]!.result).toMatchObject({ outcome: 'done', blocks: 3 });
    expect((await nextOutput(p)).finishedSending).toEqual([P_ID]);
  });

  it('that waits for a request without blocks lets a hold for D be dropped, and reports that', async () => {
    const { p, d, clock } = makeNodes();
    holdFor(p, 'other', [9], lease(clock));
    computed(p, [], 0);
    expect(p.worker.holds.dropOldest('stuck')).toBeNull();
    expect(p.worker.getFinished().changed).toBe(false);
    stream(d, p, 3);
    await p.worker.waitForChange(NEVER);
    expect(p.worker.getFinished().changed).toBe(true);
    expect(p.worker.holds.dropOldest('stuck')).toBe('other');
    computed(p, [1, 2, 3], 40);
    hold(p, [1, 2, 3], clock);
    expect(p.worker.holds.dropOldest('stuck')).toBeNull();
  });

  it('counts as moving only the time of its chunks, not the wait for blocks', async () => {
    const { p, d, clock } = makeNodes();
    d.memory.onCommit = () => clock.advance(5);
    stream(d, p, 3);
    clock.advance(100);
    computed(p, [1, 2, 3], 40);
    await turns();
    clock.advance(400);
    hold(p, [1, 2, 3], clock);
    await nextOutput(d);
    const { wallMs, movingMs } = d.transfers[0]!.result;
    expect({ wallMs, movingMs }).toEqual({ wallMs: 510, movingMs: 10 });
  });

  it('that comes after P has finished reads the hold, from where the local hit ends', async () => {
    const { p, d, clock } = makeNodes();
    computed(p, [4, 5, 6], 40);
    hold(p, [4, 5, 6], clock);
    stream(d, p, 2, { first: 1 });
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(arrived(d, p, [5, 6], 1)).toEqual([5, 6]);
  });

  it('never gathers blocks that were freed, and reads the rest from where it is computed again', async () => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    // One staging buffer: the second chunk's gather waits for the first's.
    const memory = new TestMemory({ ring: 1 }).fillRandom(3);
    const { p, d, clock } = makeNodes({ p: { memory } });
    const gathered: number[] = [];
    memory.onGather = async (_, ids) => {
      gathered.push(...ids);
      await gate;
    };
    stream(d, p, 5, { numTokens: 80 });
    computed(p, [1, 2, 3, 4], 64, 80);
    await turns();
    expect(gathered).toEqual([1, 2]);
    for (const [from, to] of [
      [1, 11],
      [2, 12],
      [3, 13],
      [4, 14],
    ] as const)
      memory.block(0, to).set(memory.block(0, from));
    computed(p, [], 0, 80);
    for (const id of [1, 2, 3, 4]) memory.block(0, id).fill(0xff);
    open();
    await turns();
    computed(p, [11, 12, 13], 48, 80);
    await turns();
    hold(p, [11, 12, 13, 14, 15], clock, 80);
    expect((await nextOutput(d)).failedRecving).toEqual([]);
    expect(gathered).toEqual([1, 2, 13, 14, 15]);
    // The blocks that were read, not those in which the rest was first computed.
    expect(d.chunks.flat()).toEqual([
      [1, 21],
      [2, 22],
      [13, 23],
      [14, 24],
      [15, 25],
    ]);
    expect(arrived(d, p, [11, 12, 13, 14, 15])).toEqual([11, 12, 13, 14, 15]);
  });

  it("is declined if P's request ends early, whether or not it had arrived", async () => {
    for (const heard of [true, false]) {
      const { p, d } = makeNodes();
      stream(d, p, 3);
      if (heard) computed(p, [1, 2, 3], 20);
      await turns();
      p.worker.startLoadKv(metadata({ reqsNotProcessed: new Set([P_ID]) }));
      const { failedRecving, finishedRecving } = await nextOutput(d);
      expect(finishedRecving).toEqual(['r']);
      expect(failedRecving[0]).toMatchObject({ outcome: 'declined', invalidBlockIds: [[21, 22, 23]] });
      expect(d.worker.counters.numFailedTransfers).toBe(0);
    }
  });

  it('of a request that never arrives fails after the lease', async () => {
    const { p, d, clock } = makeNodes();
    stream(d, p, 1);
    await turns();
    clock.advance(LEASE_MS - 1);
    await turns();
    expect(d.worker.getFinished().finishedRecving).toEqual([]);
    clock.advance(1);
    const { failedRecving } = await nextOutput(d);
    expect(failedRecving[0]).toMatchObject({ outcome: 'failed' });
    expect(failedRecving[0]!.message).toMatch(/it has not arrived/);
  });

  it('that is cancelled ends at once, and P frees what it would have held', async () => {
    const { p, d, clock } = makeNodes();
    stream(d, p, 3);
    computed(p, [1, 2, 3], 20);
    await turns();
    d.worker.startLoadKv(metadata({ reqsToCancel: new Set(['r']) }));
    expect((await nextOutput(d)).finishedRecving).toEqual(['r']);
    expect(d.worker.counters.numFailedTransfers).toBe(0);
    hold(p, [1, 2, 3], clock);
    expect((await nextOutput(p)).finishedSending).toEqual([P_ID]);
    expect(p.worker.holds.list()).toEqual([]);
  });

  it('that reaches beyond the end of the sequence fails', async () => {
    const { p, d, clock } = makeNodes();
    computed(p, [1, 2], 20);
    hold(p, [1, 2], clock);
    stream(d, p, 3);
    expect((await nextOutput(d)).failedRecving[0]!.message).toMatch(
      /has 2 blocks, but block 2 was requested/,
    );
  });

  it("ends as 'dead' when its holder ends", async () => {
    const { p, d } = makeNodes();
    stream(d, p, 3);
    computed(p, [1, 2, 3], 20);
    await turns();
    p.transport.close();
    expect((await nextOutput(d)).failedRecving[0]).toMatchObject({ outcome: 'dead' });
  });
});
