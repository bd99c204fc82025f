/** The scenarios of vLLM's test_remote_prefill_lifecycle.py (D node) and test_remote_decode_lifecycle.py (P node). */
import { describe, expect, it } from 'vitest';
import { EOS, request } from '../engine/fakes.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

describe('remote prefill, at the D node', () => {
  it('basic: full blocks are cached only once they have come, and all blocks are freed at the end', async () => {
    const engine = new ScriptedEngine({}, { bidirectional: false });
    const d = decodeRequest('d', tokens(40), 20);
    engine.model.scripts.set('d', [5, EOS]);
    engine.add({ ...d, sampling: { ...d.sampling, ignoreEos: false } });
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    expect(engine.computed('d')).toBe(40);
    expect(engine.blocks('d')).toEqual([1, 2, 3]);
    expect(engine.core.inspect.lookup(tokens(40), null).cachedTokens).toBe(0);
    expect(engine.model.batches).toHaveLength(0);
    expect(engine.core.poll()).toBe(false);
    expect(engine.core.hasWork()).toBe(true);

    engine.receive('d');
    expect(engine.core.poll()).toBe(true);
    await engine.step();
    expect(engine.core.inspect.lookup(tokens(40), null).cachedTokens).toBe(32);
    expect(engine.model.batches[0]!.requests[0]).toMatchObject({ startPosition: 39, blockIds: [[1, 2, 3]] });
    await engine.settle();
    expect(engine.finishOf('d')).toMatchObject({ reason: 'stop', kvTransferParams: null });
    expect(engine.isEmpty).toBe(true);
    expect(engine.promptOf('d')).toEqual({
      promptTokens: 40,
      localHitTokens: 0,
      pulledTokens: 39,
      computedTokens: 1,
      noPull: null,
    });
    expect(engine.core.inspect.stats().externalPrefixCache).toEqual({ queries: 40, hits: 40 });
  });

  it('interleaved: a remote request waits while two local ones run', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('local1', tokens(20, 1), { maxTokens: 5 }));
    engine.add(decodeRequest('d', tokens(40, 2)));
    engine.add(request('local2', tokens(20, 3), { maxTokens: 5 }));
    await engine.step();
    await engine.step();
    expect(engine.scheduledIn(0)).toEqual({ local1: 20, local2: 20 });
    expect(engine.scheduledIn(1)).toEqual({ local1: 1, local2: 1 });
    engine.receive('d');
    await engine.step();
    expect(engine.scheduledIn(2)).toEqual({ local1: 1, local2: 1, d: 1 });
  });

  it('no_spurious_prefix_caching: no request hits blocks that have not come yet', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40)));
    engine.add(request('local', tokens(40), { maxTokens: 3 }));
    await engine.settle();
    expect(engine.promptOf('local')).toMatchObject({ localHitTokens: 0, computedTokens: 40 });
    const shared = new Set(engine.blocks('d'));
    const used = engine.model.batches[0]!.requests[0]!.blockIds[0]!;
    expect(used.some((id) => shared.has(id))).toBe(false);
    engine.receive('d');
    await engine.settle();
    expect(engine.tokensOf('d').slice(0, 3)).toEqual(engine.tokensOf('local'));
  });

  it('full_block_prompt: the last token is computed again in place, and needs no further block', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(32)));
    await engine.step();
    expect(engine.computed('d')).toBe(32);
    engine.receive('d');
    await engine.step();
    const row = engine.model.batches[0]!.requests[0]!;
    expect([row.startPosition, row.tokenIds.length, row.blockIds[0]!.length]).toEqual([31, 1, 2]);
  });

  it('cannot_schedule_after_recv: a preempted request resumes with pulled blocks from the cache', async () => {
    // Five usable blocks: three for the local request, two for the remote one, none to grow into.
    const engine = new ScriptedEngine({ numBlocks: 6 });
    engine.add(request('local', tokens(46, 1), { maxTokens: 10 }));
    await engine.step();
    engine.add(decodeRequest('d', tokens(32, 2), 4));
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    engine.receive('d');
    await engine.step();
    expect(engine.tokensOf('d')).toHaveLength(1);
    await engine.step();
    expect(engine.status('d')).toBe('preempted');
    await engine.settle();
    expect(engine.finishOf('d')).toMatchObject({ reason: 'length', numPreemptions: 1 });
    const resumed = engine.model.batches.findLast((batch) =>
      batch.requests.some((row) => row.requestId === 'd' && row.tokenIds.length > 1),
    );
    const row = resumed?.requests.find((one) => one.requestId === 'd');
    // The last block went to the local request, because last blocks are reused first.
    expect(row?.startPosition).toBe(16);
    expect(engine.worker.metadata.filter((meta) => meta.reqsToRecv.has('d'))).toHaveLength(1);
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 31, computedTokens: 1 });
  });

  it('cannot_recv: a request without blocks stays waiting, and no transfer starts', async () => {
    const engine = new ScriptedEngine({ numBlocks: 6 });
    engine.add(request('local', tokens(46, 1), { maxTokens: 2 }));
    await engine.step();
    engine.add(decodeRequest('d', tokens(48, 2), 4));
    await engine.step();
    expect(engine.finishOf('local')?.reason).toBe('length');
    expect(engine.status('d')).toBe('waiting');
    expect(engine.worker.recv('d')).toBeNull();
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    expect(engine.worker.recv('d')!.pairs).toHaveLength(3);
  });

  it('a request pulls only the blocks that are not in the local cache', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('before', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(decodeRequest('d', tokens(60)));
    await engine.step();
    expect(engine.worker.recv('d')!.pairs.map((pair) => pair.remote)).toEqual([903, 904]);
    engine.receive('d');
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({ localHitTokens: 32, pulledTokens: 27, computedTokens: 1 });
  });

  it('a load counts towards maxNumSeqs, so that its request can run once it has come', async () => {
    const engine = new ScriptedEngine({ maxNumSeqs: 2 });
    engine.add(request('local', tokens(8, 1), { maxTokens: 9 }));
    engine.add(decodeRequest('d', tokens(20, 2), 3));
    engine.add(request('third', tokens(8, 3), { maxTokens: 1 }));
    await engine.step();
    expect(engine.status('third')).toBe('waiting');
    engine.receive('d');
    await engine.step();
    expect(engine.scheduledIn(1)).toEqual({ local: 1, d: 1 });
  });

  it('a load reserves room for all tokens of its request, which is then not preempted', async () => {
    const engine = new ScriptedEngine({ blockSize: 16, numBlocks: 7, maxNumBatchedTokens: 16 });
    // Of six blocks, a load has two and reserves a third, so that a prompt of four does not fit.
    engine.add(prefillRequest('load', tokens(48, 1), tokens(48, 1).slice(0, 32)));
    engine.add(request('other', tokens(64, 2), { maxTokens: 1 }));
    await engine.step();
    expect(engine.status('load')).toBe('waiting_for_remote_kvs');
    expect(engine.status('other')).toBe('waiting');
    engine.receive('load');
    await engine.settle();
    expect(engine.core.inspect.stats().preemptions).toBe(0);
    expect(engine.finishOf('load')).toMatchObject({ reason: 'length' });
  });

  it('a request aborted while it loads keeps its blocks until nothing writes into them any more', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    engine.core.abortRequest('d');
    await engine.step();
    expect(engine.finishOf('d')).toMatchObject({ reason: 'abort', kvTransferParams: null });
    expect(engine.core.inspect.stats()).toMatchObject({ usedBlocks: 3, heldRequests: 1 });
    expect(engine.core.resetPrefixCache()).toBe(false);
    engine.worker.finishRecving('d');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
    engine.worker.finishRecving('d');
    engine.worker.finishSending('d');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });
});

describe('remote decode, at the P node', () => {
  it('basic: the request ends by length, and its blocks are kept until they have been read', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('p', tokens(40), null));
    await engine.settle();
    expect(engine.finishOf('p')).toMatchObject({ reason: 'length' });
    expect(engine.core.inspect.stats()).toMatchObject({ usedBlocks: 3, running: 0, waiting: 0 });
    expect(engine.core.resetPrefixCache()).toBe(false);
    engine.worker.finishSending('p');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });

  it('short_prompt: a prompt of less than a block hands over one block', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('p', tokens(5), null));
    await engine.settle();
    expect(engine.finishOf('p')!.kvTransferParams).toMatchObject({
      remote_block_ids: [[1]],
      remote_num_tokens: 5,
    });
  });

  it('prefix_cache: the parameters name both the cached blocks and the partly filled one', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('p1', tokens(40), null));
    await engine.settle();
    engine.add(prefillRequest('p2', tokens(40), null));
    await engine.settle();
    const [first, second] = ['p1', 'p2'].map((id) => engine.finishOf(id)!.kvTransferParams!);
    expect(first!.remote_block_ids).toEqual([[1, 2, 3]]);
    expect(second!.remote_block_ids).toEqual([[1, 2, 4]]);
    // Both are held: the shared blocks are free only once both have been read.
    engine.worker.finishSending('p1');
    await engine.settle();
    expect(engine.core.inspect.stats().usedBlocks).toBe(3);
  });

  it('a request whose only token is the end token still hands over', async () => {
    const engine = new ScriptedEngine();
    const p = prefillRequest('p', tokens(20), null);
    engine.model.scripts.set('p', [EOS]);
    engine.add({ ...p, sampling: { ...p.sampling, ignoreEos: false } });
    await engine.settle();
    expect(engine.finishOf('p')).toMatchObject({
      reason: 'stop',
      kvTransferParams: { remote_num_tokens: 20 },
    });
  });

  it('the worker side knows the hold before the parameters are returned', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('p', tokens(20), null));
    const outputs = await engine.core.step();
    expect(outputs[0]!.finish!.kvTransferParams!.remote_request_id).toBe('p');
    expect(engine.worker.sending.has('p')).toBe(true);
    expect(engine.worker.metadata.some((meta) => meta.reqsInBatch.has('p'))).toBe(true);
  });
});
