/** Heartbeats for holds that are still to be read, and which holds are dropped when a pool is full of them. */
import { describe, expect, it } from 'vitest';
import { request } from '../engine/fakes.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

describe('heartbeats', () => {
  const beats = (engine: ScriptedEngine) =>
    engine.worker.metadata
      .flatMap((meta) => meta.heartbeats)
      .map((beat) => beat.holds.map(({ requestId }) => requestId));

  it("are sent only for D's requests, grouped by holder, every sixth of the lease", async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d1', tokens(20, 1), 4, { remote_request_id: 'p1' }));
    engine.add(decodeRequest('d2', tokens(20, 2), 4, { remote_request_id: 'p2' }));
    engine.add(decodeRequest('d3', tokens(20, 3), 4, { remote_request_id: 'p3', remote_port: 5700 }));
    engine.add(prefillRequest('p', tokens(80, 4), tokens(48, 4)));
    engine.add(request('plain', tokens(8, 5), { maxTokens: 3 }));
    await engine.settle();
    expect(beats(engine)).toEqual([['p1', 'p2'], ['p3']]);
    expect(engine.worker.metadata[0]!.heartbeats[1]!.remote).toEqual({
      engineId: 'prefill-engine',
      host: 'localhost',
      port: 5700,
    });
    engine.clock.advance(4_999);
    expect(engine.core.poll()).toBe(false);
    engine.clock.advance(1);
    expect(engine.core.poll()).toBe(true);
    await engine.settle();
    expect(beats(engine)).toHaveLength(4);
  });

  it('wake a step loop that sleeps', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d1', tokens(20)));
    await engine.settle();
    let woke = false;
    const waiting = engine.core.waitForChange(new AbortController().signal).then(() => {
      woke = true;
    });
    engine.clock.advance(4_000);
    await Promise.resolve();
    expect(woke).toBe(false);
    engine.clock.advance(1_000);
    await waiting;
    expect(engine.core.poll()).toBe(true);
  });

  it('stop when the blocks have come or the request has ended', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d1', tokens(20, 1)));
    engine.add(decodeRequest('d2', tokens(20, 2)));
    await engine.settle();
    engine.receive('d1');
    engine.core.abortRequest('d2');
    await engine.settle();
    const before = beats(engine).length;
    engine.clock.advance(60_000);
    await engine.settle();
    expect(beats(engine)).toHaveLength(before);
  });

  it("are not sent without the holder's address", async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d1', tokens(20), 4, { remote_port: null }));
    await engine.settle();
    expect(beats(engine)).toEqual([]);
  });
});

/** A D node that holds 3 blocks for P for each of two ended requests, of 8 blocks in its pool. */
async function fullOfHolds() {
  const engine = new ScriptedEngine({ numBlocks: 9 });
  for (const [seed, id] of [
    [1, 'old'],
    [2, 'young'],
  ] as const) {
    engine.add(decodeRequest(id, tokens(40, seed), 3));
    await engine.step();
    engine.receive(id);
    await engine.settle();
    engine.clock.advance(1_000);
  }
  expect(engine.core.inspect.stats()).toMatchObject({ heldRequests: 2, freeBlocks: 2 });
  return engine;
}

describe('a pool full of holds', () => {
  it('drops the oldest unread hold for P, and no more holds than needed', async () => {
    const engine = await fullOfHolds();
    engine.add(request('new', tokens(60, 3), { maxTokens: 3 }));
    await engine.settle();
    expect(engine.worker.dropped).toEqual(['old']);
    expect(engine.finishOf('new')!.reason).toBe('length');
    engine.add(request('large', tokens(110, 4), { maxTokens: 3 }));
    await engine.settle();
    expect(engine.worker.dropped).toEqual(['old', 'young']);
    expect(engine.finishOf('large')!.reason).toBe('length');
    expect(engine.isEmpty).toBe(true);
  });

  it('drops holds for a waiting request even while another request loads', async () => {
    const engine = await fullOfHolds();
    engine.add(decodeRequest('loads', tokens(20, 5), 2));
    engine.add(request('new', tokens(60, 3), { maxTokens: 3 }));
    await engine.settle();
    expect(engine.worker.dropped).toEqual(['old', 'young']);
    expect(engine.finishOf('new')!.reason).toBe('length');
    expect(engine.status('loads')).toBe('waiting_for_remote_kvs');
  });

  it('needs no more forward passes than a pool without holds', async () => {
    const passes = async (bidirectional: boolean) => {
      // Room for four requests at once.
      const engine = new ScriptedEngine({ numBlocks: 17 }, { bidirectional });
      for (let i = 0; i < 16; i++)
        engine.add(decodeRequest(`d${i}`, tokens(50, i), 12, { remote_block_ids: null }));
      await engine.settle();
      const { forwardPasses, preemptions } = engine.core.inspect.stats();
      expect(preemptions).toBe(0);
      return forwardPasses;
    };
    expect(await passes(true)).toBe(await passes(false));
  });

  it('drops holds before it preempts one of several running requests', async () => {
    const engine = await fullOfHolds();
    for (const seed of [3, 4]) engine.add(request(`r${seed}`, tokens(16, seed), { maxTokens: 40 }));
    await engine.settle();
    expect(engine.worker.dropped).toEqual(['old', 'young']);
    expect(engine.core.inspect.stats().preemptions).toBe(0);
  });

  it('drops a hold so that a request running alone can grow without a preemption', async () => {
    const engine = await fullOfHolds();
    engine.add(request('new', tokens(30, 3), { maxTokens: 40 }));
    await engine.settle();
    expect(engine.finishOf('new')).toMatchObject({ reason: 'length', numPreemptions: 0 });
    expect(engine.worker.dropped).toEqual(['old']);
  });

  it('never drops what is being read: it sleeps, names the reason, and continues once it can drop', async () => {
    const engine = await fullOfHolds();
    for (const hold of engine.worker.sending.values()) hold.reading = true;
    engine.add(request('new', tokens(60, 3), { maxTokens: 3 }));
    await engine.settle();
    expect(engine.core.poll()).toBe(false);
    expect(engine.core.hasWork()).toBe(true);
    const until = [...engine.worker.sending.values()].map((hold) => hold.deadline);
    const last = Math.floor(Math.max(...until) / 1000);
    const time = [Math.floor(last / 3600) % 24, Math.floor(last / 60) % 60, last % 60];
    expect(engine.core.inspect.waitingReason('new')).toBe(
      `waits for 4 blocks, 2 of 8 are free: 6 of 8 are held for P engine 'prefill-engine' until ` +
        `${time.map((part) => String(part).padStart(2, '0')).join(':')} UTC`,
    );
    // The READ ended without a notification: the hold stays, but may now be dropped.
    for (const hold of engine.worker.sending.values()) hold.reading = false;
    const waiting = engine.core.waitForChange(new AbortController().signal);
    engine.worker.change();
    await waiting;
    expect(engine.core.poll()).toBe(true);
    await engine.settle();
    expect(engine.finishOf('new')!.reason).toBe('length');
  });

  it('waits for the reader of a hold for D as long as the worker side does not drop it', async () => {
    const engine = new ScriptedEngine({ numBlocks: 9 });
    engine.add(prefillRequest('p1', tokens(60, 1), null));
    engine.add(prefillRequest('p2', tokens(60, 2), null));
    await engine.settle();
    engine.add(prefillRequest('p3', tokens(60, 3), null));
    await engine.settle();
    expect(engine.worker.dropped).toEqual([]);
    expect(engine.core.inspect.waitingReason('p3')).toMatch(
      /^waits for 4 blocks, 0 of 8 are free: 8 of 8 are held for a D engine until/,
    );
    engine.worker.finishSending('p1');
    expect(engine.core.poll()).toBe(true);
    await engine.settle();
    expect(engine.finishOf('p3')!.reason).toBe('length');
  });

  it('preempts the later of two loaded requests that block each other', async () => {
    // Both prefixes came, but neither rest fits: a request that grew took the blocks.
    const engine = new ScriptedEngine({ numBlocks: 9 });
    const grows = prefillRequest('grows', tokens(15, 1), null);
    engine.add({ ...grows, sampling: { ...grows.sampling, maxTokens: 20 } });
    await engine.step();
    engine.add(prefillRequest('a', tokens(56, 2), tokens(32, 2)));
    engine.add(prefillRequest('b', tokens(40, 3), tokens(32, 3)));
    await engine.settle();
    expect(engine.core.inspect.stats()).toMatchObject({
      waitingForRemote: 2,
      heldRequests: 1,
      freeBlocks: 1,
    });
    engine.receive('a');
    engine.receive('b');
    await engine.settle();
    expect(engine.finishOf('a')!.reason).toBe('length');
    expect(engine.status('b')).toBe('preempted');
    engine.worker.finishSending('grows');
    await engine.settle();
    expect(engine.finishOf('b')).toMatchObject({ reason: 'length', numPreemptions: 1 });
    // One block of those that it pulled was still cached, and is now a local hit.
    const { pulledTokens, noPull } = engine.promptOf('b')!;
    expect({ pulledTokens, noPull }).toEqual({
      pulledTokens: 0,
      noPull: { by: 'preemption', reason: 'the pulled blocks were lost to a preemption' },
    });
  });
});
