/** Scenarios of vLLM's test_bidirectional_kv_transfer.py, by their names there. Block size 16; threshold 0 unless stated. */
import { describe, expect, it } from 'vitest';
import { claimPrefix } from '../../src/transport/prefix-claim.ts';
import { EOS, request } from '../engine/fakes.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

/** P runs a turn whose first `remoteTokens` tokens D has, until it waits for the pull. */
async function waitingPull(promptLength: number, remoteTokens: number, engine = new ScriptedEngine()) {
  engine.add(prefillRequest('t2', tokens(promptLength), tokens(remoteTokens)));
  await engine.step();
  return engine;
}

async function finishedDecode(sampling: { maxTokens?: number; script?: number[] } = {}, promptLength = 40) {
  const engine = new ScriptedEngine();
  const d = decodeRequest('d', tokens(promptLength), sampling.maxTokens ?? 4);
  if (sampling.script) engine.model.scripts.set('d', sampling.script);
  engine.add({ ...d, sampling: { ...d.sampling, ignoreEos: false } });
  await engine.step();
  engine.receive('d');
  await engine.settle();
  return { engine, params: engine.finishOf('d')!.kvTransferParams! };
}

describe('P node', () => {
  it('1 multiturn_lifecycle: pulls in the second turn, and frees all once both turns have been read', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('t1', tokens(40), null));
    await engine.settle();
    expect(engine.finishOf('t1')!.reason).toBe('length');
    expect(engine.finishOf('t1')!.kvTransferParams!.remote_block_ids).toEqual([[1, 2, 3]]);
    engine.add(prefillRequest('t2', tokens(56), tokens(48)));
    await engine.step();
    expect(engine.status('t2')).toBe('waiting_for_remote_kvs');
    expect(engine.core.inspect.waitingReason('t2')).toBe("waits for KV from 'decode-engine'");
    engine.receive('t2');
    await engine.settle();
    expect(engine.finishOf('t2')!.reason).toBe('length');
    expect(engine.promptOf('t2')).toMatchObject({ localHitTokens: 32, pulledTokens: 16, computedTokens: 8 });
    expect(engine.isEmpty).toBe(false);
    engine.worker.finishSending('t1');
    engine.worker.finishSending('t2');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });

  it('2 first_turn_no_remote_blocks: pulls nothing, and holds its blocks until they have been read', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('t1', tokens(40), null));
    await engine.step();
    expect(engine.finishOf('t1')!.kvTransferParams).toMatchObject({ do_remote_prefill: true });
    expect(engine.promptOf('t1')!.noPull).toBeNull();
    expect(engine.core.inspect.stats()).toMatchObject({ heldRequests: 1, usedBlocks: 3 });
    engine.worker.finishSending('t1');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });

  it('3 abort_p_side_during_send: ignores an abort while its blocks are held', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('t1', tokens(40), null));
    await engine.settle();
    engine.core.abortRequest('t1');
    await engine.settle();
    expect(engine.status('t1')).toBe('finished_length_capped');
    engine.worker.finishSending('t1');
    await engine.settle();
    expect(engine.isEmpty).toBe(true);
  });

  it('4 abort_p_side_non_length_capped: frees its blocks and holds nothing', async () => {
    const engine = new ScriptedEngine();
    const p = prefillRequest('t1', tokens(40), null);
    engine.add({ ...p, sampling: { ...p.sampling, maxTokens: 100 } });
    await engine.step();
    engine.core.abortRequest('t1');
    expect(engine.status('t1')).toBeNull();
    expect(engine.core.inspect.stats().usedBlocks).toBe(0);
    await engine.settle();
    expect(engine.worker.metadata.at(-1)!.reqsNotProcessed).toEqual(new Set(['t1']));
    expect(engine.finishOf('t1')).toMatchObject({ reason: 'abort', kvTransferParams: null });
  });

  it('5 remote_blocks_exceed_prompt_tokens: pairs as many blocks as the prompt has, by index', async () => {
    const engine = await waitingPull(40, 80);
    expect(engine.computed('t2')).toBe(40);
    // vLLM would trim to the last three of the five, which hold other tokens.
    expect(engine.worker.recv('t2')!.pairs.map((pair) => pair.remote)).toEqual([901, 902, 903]);
    expect(engine.worker.recv('t2')!.pairs.map((pair) => pair.local)).toEqual(engine.blocks('t2'));
    engine.receive('t2');
    await engine.settle();
    expect(engine.finishOf('t2')!.reason).toBe('length');
    expect(engine.promptOf('t2')).toMatchObject({ pulledTokens: 39, computedTokens: 1 });
  });

  it('6 p_node_pulls_partial_last_block_from_d: computes from the middle of that block on', async () => {
    const engine = await waitingPull(56, 40);
    expect(engine.computed('t2')).toBe(40);
    expect(engine.worker.recv('t2')!.pairs).toHaveLength(3);
    engine.receive('t2');
    await engine.settle();
    const row = engine.model.batches[0]!.requests[0]!;
    expect([row.startPosition, row.tokenIds.length]).toEqual([40, 16]);
    expect(engine.finishOf('t2')!.reason).toBe('length');
  });

  it('7 add_new_req_to_recv_populates_remote_meta: passes on the holder, the claim and the pairs', async () => {
    const engine = await waitingPull(56, 48);
    const recv = engine.worker.recv('t2')!;
    const told = claimPrefix(true)(tokens(48), 48, null);
    expect(recv.remote).toEqual({
      engineId: 'decode-engine',
      requestId: 'remote-request',
      host: 'localhost',
      port: 5601,
      claim: { held: told, prompt: told },
      blocksExpiryTime: null,
    });
    expect(recv.pairs).toEqual([
      { group: 0, remote: 901, local: 1 },
      { group: 0, remote: 902, local: 2 },
      { group: 0, remote: 903, local: 3 },
    ]);
    expect(recv.numTokens).toBe(48);
  });

  it('8 build_connector_meta_recv_entries, 9 build_connector_meta_clears_reqs_need_recv: once only', async () => {
    const engine = await waitingPull(56, 48);
    expect([...engine.worker.metadata[0]!.reqsToRecv.keys()]).toEqual(['t2']);
    engine.add(request('other', tokens(5, 7), { maxTokens: 1 }));
    await engine.settle();
    const again = engine.worker.metadata.slice(1).some((meta) => meta.reqsToRecv.size > 0);
    expect(again).toBe(false);
  });

  it('10 build_connector_meta_multiple_requests: starts three pulls in one step', async () => {
    const engine = new ScriptedEngine();
    for (const id of ['a', 'b', 'c']) {
      const prompt = tokens(56, id.charCodeAt(0));
      engine.add(prefillRequest(id, prompt, prompt.slice(0, 48)));
    }
    await engine.step();
    expect([...engine.worker.metadata[0]!.reqsToRecv.keys()]).toEqual(['a', 'b', 'c']);
    expect(engine.core.inspect.stats()).toMatchObject({ waitingForRemote: 3, running: 0 });
  });

  it('18 no_double_read_blocks_after_reschedule, 24 remote_blocks_processed_flag_persists: pulls once', async () => {
    // The pulling request is preempted for an older one, and must compute everything when it resumes.
    const engine = new ScriptedEngine({ numBlocks: 7, prefixCaching: false });
    engine.add(request('elder', tokens(16, 9), { maxTokens: 50 }));
    await engine.step();
    const p = prefillRequest('t2', tokens(48), tokens(32));
    engine.add({ ...p, sampling: { ...p.sampling, maxTokens: 30 } });
    await engine.step();
    engine.receive('t2');
    await engine.settle();
    expect(engine.finishOf('t2')!.numPreemptions).toBeGreaterThan(0);
    const recvs = engine.worker.metadata.filter((meta) => meta.reqsToRecv.has('t2'));
    expect(recvs).toHaveLength(1);
    expect(engine.tokensOf('t2')).toHaveLength(30);
  });

  it('20 kv_recompute_threshold_skips_small_transfer: computes everything, and tells the holder', async () => {
    const engine = new ScriptedEngine({}, { recomputeThreshold: 256 });
    engine.add(prefillRequest('t2', tokens(40), tokens(48)));
    await engine.step();
    expect(engine.promptOf('t2')).toMatchObject({
      pulledTokens: 0,
      computedTokens: 40,
      noPull: { by: 'policy', reason: '40 < threshold 256' },
    });
    // D is told at once that its hold will not be read.
    expect(engine.worker.recv('t2')!.pairs).toEqual([]);
  });

  it('21 p_node_finished_holds_blocks_for_d: leaves all parameters, and a hold with a lease of 30 s', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('t1', tokens(40), null));
    await engine.settle();
    expect(engine.finishOf('t1')!.kvTransferParams).toEqual({
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [[1, 2, 3]],
      remote_engine_id: 'engine',
      remote_request_id: 't1',
      remote_host: 'localhost',
      remote_port: 5600,
      tp_size: 1,
      remote_num_tokens: 40,
      remote_blocks_expiry_time: null,
      remote_token_ids: tokens(40),
    });
    const hold = engine.worker.sending.get('t1')!;
    expect(hold).toMatchObject({ direction: 'prefill', deadline: engine.clock.now() + 30_000 });
  });

  it('22 cache_miss_first_turn_no_remote_pull: computes everything, without a reason for not pulling', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('t1', tokens(40), null, { remote_block_ids: null }));
    await engine.step();
    expect(engine.promptOf('t1')).toMatchObject({ computedTokens: 40, noPull: null });
  });

  it('23 partial_remote_tokens_less_than_prompt: pulls what D has, and computes the rest', async () => {
    const engine = await waitingPull(72, 32);
    expect(engine.status('t2')).toBe('waiting_for_remote_kvs');
    expect(engine.computed('t2')).toBe(32);
    engine.receive('t2');
    await engine.settle();
    expect(engine.promptOf('t2')).toMatchObject({ pulledTokens: 32, computedTokens: 40 });
  });
});

describe('D node', () => {
  it('14 d_node_request_finished_returns_kv_params: also if the end token ends it', async () => {
    const { engine, params } = await finishedDecode({ maxTokens: 20, script: [5, 6, EOS] });
    expect(engine.finishOf('d')!.reason).toBe('stop');
    expect(params).toMatchObject({ do_remote_decode: true, do_remote_prefill: false });
    expect(params.remote_block_ids![0]!.length).toBeGreaterThan(0);
  });

  it('15 d_node_request_finished_delays_block_free: holds its blocks for 480 s', async () => {
    const { engine } = await finishedDecode();
    expect(engine.core.inspect.requestState('d')).toMatchObject({ heldFor: 'reader' });
    const hold = engine.worker.sending.get('d')!;
    expect(hold).toMatchObject({ direction: 'decode', deadline: engine.clock.now() + 480_000 });
  });

  it('16 d_node_request_finished_remote_num_tokens: the last sampled token has no KV', async () => {
    const { engine, params } = await finishedDecode({ maxTokens: 10 });
    expect(params.remote_num_tokens).toBe(49);
    expect(params.remote_block_ids![0]).toHaveLength(4);
    expect(params.remote_token_ids).toEqual([...tokens(40), ...engine.tokensOf('d').slice(0, 9)]);
    expect(params.remote_blocks_expiry_time).toBe((engine.clock.now() + 480_000) / 1000);
  });

  it('17 d_node_partial_last_block: hands over the partly filled block too', async () => {
    const { params } = await finishedDecode({ maxTokens: 4 });
    expect(params.remote_block_ids![0]).toHaveLength(3);
    expect(params.remote_num_tokens).toBe(43);
  });

  it('19 remote_num_tokens_bounded_by_blocks: names exactly the blocks that its tokens need', async () => {
    for (const maxTokens of [1, 8, 9, 10, 24, 25, 26]) {
      const { params } = await finishedDecode({ maxTokens });
      expect(params.remote_block_ids![0]).toHaveLength(Math.ceil(params.remote_num_tokens! / 16));
    }
  });
});

describe('a request that is stopped', () => {
  it('while its KV is on its way leaves nothing to read', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(40), 4));
    await engine.step();
    engine.core.stopRequest('d');
    await engine.settle();
    expect(engine.finishOf('d')).toMatchObject({ reason: 'stop', kvTransferParams: null });
    engine.worker.failRecving('d', 'failed', []);
    await engine.settle();
    expect(engine.worker.list()).toEqual([]);
    expect(engine.isEmpty).toBe(true);
  });

  it('during a step that allocated a further block leaves only blocks whose tokens have KV', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(32), 20, { remote_block_ids: null }));
    await engine.step();
    expect(engine.computed('d')).toBe(32);
    engine.model.duringBatch = () => engine.core.stopRequest('d');
    await engine.step();
    expect(engine.model.batches.at(-1)!.requests[0]!.blockIds[0]).toHaveLength(3);
    const { kvTransferParams } = engine.finishOf('d')!;
    expect(kvTransferParams).toMatchObject({ remote_num_tokens: 32, remote_block_ids: [[1, 2]] });
    expect(engine.worker.sending.get('d')!.blockIds).toEqual([[1, 2]]);
  });

  it('after a preemption, without blocks, leaves nothing to read', async () => {
    const engine = new ScriptedEngine({ numBlocks: 9 });
    for (const [id, seed] of [
      ['first', 1],
      ['second', 2],
    ] as const)
      engine.add(decodeRequest(id, tokens(40, seed), 60, { remote_block_ids: null }));
    while (engine.status('second') !== 'preempted') await engine.step();
    engine.core.stopRequest('second');
    await engine.step();
    expect(engine.finishOf('second')).toMatchObject({ reason: 'stop', kvTransferParams: null });
    expect(engine.worker.metadata.at(-1)!.reqsNotProcessed).toContain('second');
  });
});
