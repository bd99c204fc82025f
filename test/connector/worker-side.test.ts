/** The worker side over the real transport: pulls, and all ways in which they end. */

import { describe, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';
import { kvBlockBytes } from '../../src/model/types.ts';
import { TestClock } from '../clock.ts';
import { differing, FACTORS, pairsOf, range, TestMemory, turns } from '../transport/helpers.ts';
import {
  connect,
  hold,
  LEASE_MS,
  lease,
  makeNode,
  makeNodes,
  metadata,
  nextOutput,
  nothing,
  pull,
  sends,
  TTL_MS,
  ttl,
} from './nodes.ts';

describe('a pull', () => {
  it('p_node_pull_kv_from_d: is reported once, with its blocks in place and the holder notified', async () => {
    const { clock, p, d } = makeNodes();
    hold(d, 'turn1@decode-engine', [4, 5, 6], ttl(clock));
    const pairs = pairsOf([5, 6], [20, 21]);
    pull(p, d, 'turn1', pairs, { blocksExpiryTime: (clock.now() + TTL_MS) / 1000 });
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(await nextOutput(p)).toEqual({ ...nothing, finishedRecving: ['turn1'] });
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(differing(p.memory, d.memory, pairs)).toEqual([]);
    expect(await nextOutput(d)).toMatchObject({ finishedSending: ['turn1@decode-engine'] });
    expect(d.worker.holds.list()).toEqual([]);
    expect(p.worker.counters).toMatchObject({ transfers: 1, numFailedTransfers: 0, numKvExpired: 0 });
    expect(p.transfers).toMatchObject([
      { requestId: 'turn1', numTokens: 32, result: { outcome: 'done', blocks: 2 } },
    ]);
  });

  it("p_node_pull_then_send_kv: may be followed by a hold of P's, which D's notification ends", async () => {
    const { clock, p, d } = makeNodes();
    hold(d, 'old@decode-engine', [4, 5], ttl(clock));
    pull(p, d, 'old', pairsOf([4, 5], [1, 2]));
    await nextOutput(p);
    p.worker.startLoadKv(metadata({ reqsToSend: sends('old', [1, 2, 3], lease(clock)) }));
    pull(d, p, 'next', pairsOf([1, 2, 3], [9, 10, 11]), { requestId: 'old' });
    await nextOutput(d);
    await turns();
    expect(p.worker.getFinished()).toMatchObject({ finishedSending: ['old'] });
  });

  it('p_node_deferred_pull_on_no_handshake: starts at once, and ends after a handshake in the background', async () => {
    const { clock, p, d } = makeNodes();
    hold(d, 'r@decode-engine', [1], ttl(clock));
    pull(p, d, 'r', pairsOf([1], [1]));
    // startLoadKv has returned; nothing has been waited for.
    expect(p.worker.getFinished()).toEqual(nothing);
    expect((await nextOutput(p)).finishedRecving).toEqual(['r']);
  });

  it('concurrent_load_kv: may run with others from the same engine, and each is reported', async () => {
    const { clock, p, d } = makeNodes();
    for (const i of range(0, 5)) {
      hold(p, `r${i}@prefill`, range(1 + i * 3, 3), lease(clock));
      pull(d, p, `r${i}`, pairsOf(range(1 + i * 3, 3), range(1 + i * 3, 3)));
    }
    const seen: string[] = [];
    while (seen.length < 5) seen.push(...(await nextOutput(d)).finishedRecving);
    expect(seen.toSorted()).toEqual(['r0', 'r1', 'r2', 'r3', 'r4']);
    await turns();
    expect(p.worker.getFinished().finishedSending).toHaveLength(5);
  });

  it('of no blocks only notifies the holder, which frees its blocks, and is not reported', async () => {
    const { clock, p, d } = makeNodes();
    hold(d, 'r@decode-engine', [1, 2], ttl(clock));
    // Even when the blocks' time is up: there is nothing to read.
    pull(p, d, 'r', [], { blocksExpiryTime: 0 });
    expect((await nextOutput(d)).finishedSending).toEqual(['r@decode-engine']);
    expect(p.worker.getFinished()).toEqual(nothing);
    expect(p.transfers).toEqual([]);
    expect(d.memory.gathers).toBe(0);
  });
});

describe('a pull near expiry (#47021)', () => {
  const cases: [string, number, string][] = [
    ['long expired', -100, 'expired'],
    ['just expired', -0.001, 'expired'],
    ['within the margin of its deadline', 4.9, 'expired'],
    ['exactly the margin before its deadline', 5, 'expired'],
    ['more than the margin before its deadline', 5.1, 'done'],
  ];
  for (const [what, seconds, outcome] of cases) {
    it(`ends as '${outcome}' if the hold is ${what}`, async () => {
      const { clock, p, d } = makeNodes();
      hold(d, 'r@decode-engine', [1, 2], ttl(clock));
      pull(p, d, 'r', pairsOf([1, 2], [7, 8]), { blocksExpiryTime: clock.now() / 1000 + seconds });
      const output = await nextOutput(p);
      expect(output.finishedRecving).toEqual(['r']);
      await turns();
      if (outcome === 'done') {
        expect(output.failedRecving).toEqual([]);
        return;
      }
      expect(output.failedRecving).toMatchObject([{ requestId: 'r', outcome, invalidBlockIds: [[7, 8]] }]);
      expect(p.worker.counters.numKvExpired).toBe(1);
      // No READ, no notification.
      expect(d.memory.gathers).toBe(0);
      expect(d.worker.holds.list()).toHaveLength(1);
    });
  }

  it("is judged by the holder's clock", async () => {
    const own = new TestClock(1_000_000);
    const ahead = new TestClock(1_000_000 + 3_600_000);
    const p = makeNode('prefill', own);
    const d = makeNode('decode-engine', ahead);
    connect(p, d);
    for (const [id, seconds, outcome] of [
      ['late', 4, 'expired'],
      ['early', 6, 'done'],
    ] as const) {
      hold(d, `${id}@decode-engine`, [1], ttl(ahead));
      pull(p, d, id, pairsOf([1], [1]), { blocksExpiryTime: ahead.now() / 1000 + seconds });
      await nextOutput(p);
      expect(p.transfers.at(-1)!.result.outcome).toBe(outcome);
    }
  });

  it('is not refused without a deadline, or with bidirectional off', async () => {
    const usual = makeNodes();
    hold(usual.d, 'r@decode-engine', [1], ttl(usual.clock));
    pull(usual.p, usual.d, 'r', pairsOf([1], [1]), { blocksExpiryTime: null });
    expect((await nextOutput(usual.p)).failedRecving).toEqual([]);
    const off = makeNodes({ config: { bidirectional: false } });
    hold(off.d, 'r@decode-engine', [1], ttl(off.clock));
    pull(off.p, off.d, 'r', pairsOf([1], [1]), { blocksExpiryTime: 0 });
    expect((await nextOutput(off.p)).failedRecving).toEqual([]);
  });
});

describe('a failed pull is reported in finishedRecving, with its blocks', () => {
  async function failure(nodes: ReturnType<typeof makeNodes>) {
    pull(nodes.d, nodes.p, 'r', pairsOf([1, 2], [7, 8]));
    const output = await nextOutput(nodes.d);
    expect(output.finishedRecving).toEqual(['r']);
    expect(output.failedRecving).toHaveLength(1);
    const [failed] = output.failedRecving;
    expect(failed!.invalidBlockIds).toEqual([[7, 8]]);
    expect(nodes.d.transfers.map(({ result }) => result.outcome)).toEqual([failed!.outcome]);
    return failed!;
  }

  it('handshake_failed: if the models differ', async () => {
    const nodes = makeNodes({ p: { factors: { ...FACTORS, model: 'other' } } });
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    expect(await failure(nodes)).toMatchObject({
      outcome: 'failed',
      message: expect.stringContaining('model'),
    });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(1);
    // The holder was not notified, and keeps the blocks until the lease ends.
    expect(nodes.p.worker.holds.list()).toHaveLength(1);
  });

  it.each(['f16', 'f32'] as const)('handshake_failed: if P has %s KV and D does not', async (kvDtype) => {
    const as = (dtype: 'f16' | 'f32') => ({
      factors: { ...FACTORS, kvDtype: dtype },
      memory: new TestMemory({ blockBytes: [kvBlockBytes(presetArchitecture('nano'), 16, dtype)] }),
    });
    const nodes = makeNodes({ p: as(kvDtype), d: as(kvDtype === 'f16' ? 'f32' : 'f16') });
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    const { outcome, message } = await failure(nodes);
    expect(outcome).toBe('failed');
    expect(message).toContain(`kvDtype is ${kvDtype === 'f16' ? 'f32' : 'f16'} here and ${kvDtype} there`);
    expect(nodes.p.memory.gathers).toBe(0);
  });

  it('transfer_setup_failed: if there is no engine at the address', async () => {
    const nodes = makeNodes();
    nodes.p.address = { ...nodes.p.address, port: 1 };
    expect((await failure(nodes)).message).toContain('no engine is known');
  });

  it('transfer_failed: if the holder cannot gather the blocks, which it still holds', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.p.memory.onGather = () => {
      throw new Error('device lost');
    };
    expect(await failure(nodes)).toMatchObject({ outcome: 'failed' });
    expect(nodes.p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: false }]);
  });

  it('transfer_exception: if the blocks cannot be stored', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.d.memory.onCommit = () => {
      throw new Error('device lost');
    };
    expect(await failure(nodes)).toMatchObject({ outcome: 'failed' });
  });

  it("as 'dead' if the holder ended, even before the expiry check", async () => {
    const nodes = makeNodes();
    nodes.d.transport.peerDied('prefill');
    expect(await failure(nodes)).toMatchObject({ outcome: 'dead' });
    pull(nodes.d, nodes.p, 'r2', pairsOf([1], [1]), { blocksExpiryTime: 1e12 });
    expect((await nextOutput(nodes.d)).failedRecving).toMatchObject([{ outcome: 'dead' }]);
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(2);
  });

  it("as 'declined' if its hold was dropped, which does not count as a failed transfer", async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], ttl(nodes.clock));
    expect(nodes.p.worker.holds.dropOldest('stuck')).toBe('r@prefill');
    expect(await failure(nodes)).toMatchObject({ outcome: 'declined' });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(0);
  });

  it("as 'expired' if the lease has ended at the holder", async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.clock.advance(LEASE_MS);
    expect(await failure(nodes)).toMatchObject({ outcome: 'expired' });
    expect(nodes.p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it("as 'refused' if there never was a hold, which counts as a failed transfer", async () => {
    const nodes = makeNodes();
    expect(await failure(nodes)).toMatchObject({ outcome: 'refused' });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(1);
  });

  it('notification_failed: but not if only the notification fails; the hold then stays for its lease', async () => {
    const nodes = makeNodes();
    const { clock, p, d } = nodes;
    hold(p, 'r@prefill', [1], lease(clock));
    pull(d, p, 'r', [], { port: 1 });
    await turns();
    expect(d.worker.counters.numFailedNotifications).toBe(1);
    expect(p.worker.holds.list()).toHaveLength(1);
    clock.advance(LEASE_MS);
    expect(p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });
});
