/** The connector's worker side over the real transport: pulls, and every way in which they end. */

import { describe, expect, it } from 'vitest';
import { presetArchitecture } from '../../src/model/presets.ts';
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
  it('p_node_pull_kv_from_d: getFinished reports it once, with the blocks in place and the holder told', async () => {
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

  it("p_node_pull_then_send_kv: after the pull, D's notification ends P's own hold", async () => {
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

  it('p_node_deferred_pull_on_no_handshake: starts now, ends after the handshake in the background', async () => {
    const { clock, p, d } = makeNodes();
    hold(d, 'r@decode-engine', [1], ttl(clock));
    pull(p, d, 'r', pairsOf([1], [1]));
    // startLoadKv has returned; nothing has been waited for.
    expect(p.worker.getFinished()).toEqual(nothing);
    expect((await nextOutput(p)).finishedRecving).toEqual(['r']);
  });

  it('concurrent_load_kv: several pulls from one engine each end by themselves', async () => {
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

  it('of no blocks only notifies: the holder frees, and nothing is reported here', async () => {
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

describe('near expiry (#47021)', () => {
  const cases: [string, number, string][] = [
    ['long expired', -100, 'expired'],
    ['just expired', -0.001, 'expired'],
    ['within the margin', 4.9, 'expired'],
    ['at the margin', 5, 'expired'],
    ['beyond the margin', 5.1, 'done'],
  ];
  for (const [what, seconds, outcome] of cases) {
    it(`${what}: ${outcome}`, async () => {
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

  it("judges on the holder's clock", async () => {
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

  it('a missing deadline, or bidirectional off, reads as usual', async () => {
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

describe('a pull that fails is in finishedRecving and names its blocks', () => {
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

  it('handshake_failed: another model', async () => {
    const nodes = makeNodes({ p: { factors: { ...FACTORS, model: 'other' } } });
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    expect(await failure(nodes)).toMatchObject({
      outcome: 'failed',
      message: expect.stringContaining('model'),
    });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(1);
    // Not told anything, the holder keeps the blocks for its lease.
    expect(nodes.p.worker.holds.list()).toHaveLength(1);
  });

  it.each(['f16', 'f32'] as const)('handshake_failed: P keeps KV as %s, D as the other', async (kvDtype) => {
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

  it('transfer_setup_failed: nobody at the address', async () => {
    const nodes = makeNodes();
    nodes.p.address = { ...nodes.p.address, port: 1 };
    expect((await failure(nodes)).message).toContain('no engine is known');
  });

  it('transfer_failed: the holder cannot give the blocks; it keeps them until the lease ends', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.p.memory.onGather = () => {
      throw new Error('device lost');
    };
    expect(await failure(nodes)).toMatchObject({ outcome: 'failed' });
    expect(nodes.p.worker.holds.list()).toMatchObject([{ requestId: 'r@prefill', reading: false }]);
  });

  it('transfer_exception: the blocks cannot be stored', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.d.memory.onCommit = () => {
      throw new Error('device lost');
    };
    expect(await failure(nodes)).toMatchObject({ outcome: 'failed' });
  });

  it('dead: the holder ended, before the check of the expiry too', async () => {
    const nodes = makeNodes();
    nodes.d.transport.peerDied('prefill');
    expect(await failure(nodes)).toMatchObject({ outcome: 'dead' });
    pull(nodes.d, nodes.p, 'r2', pairsOf([1], [1]), { blocksExpiryTime: 1e12 });
    expect((await nextOutput(nodes.d)).failedRecving).toMatchObject([{ outcome: 'dead' }]);
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(2);
  });

  it('declined: dropped under pressure. It is no failed transfer', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], ttl(nodes.clock));
    expect(nodes.p.worker.holds.dropOldest('stuck')).toBe('r@prefill');
    expect(await failure(nodes)).toMatchObject({ outcome: 'declined' });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(0);
  });

  it('expired: the lease ended at the holder', async () => {
    const nodes = makeNodes();
    hold(nodes.p, 'r@prefill', [1, 2], lease(nodes.clock));
    nodes.clock.advance(LEASE_MS);
    expect(await failure(nodes)).toMatchObject({ outcome: 'expired' });
    expect(nodes.p.worker.getFinished().finishedSending).toEqual(['r@prefill']);
  });

  it('refused: nothing was ever held. It is a failed transfer', async () => {
    const nodes = makeNodes();
    expect(await failure(nodes)).toMatchObject({ outcome: 'refused' });
    expect(nodes.d.worker.counters.numFailedTransfers).toBe(1);
  });

  it('notification_failed costs the holder its lease, and the pull nothing', async () => {
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
