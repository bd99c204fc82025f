/** Rules of the scheduler side, one by one: what to pull, from which holder, and what to hold. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { commonPrefixLength } from '../../src/config/token-ids.ts';
import { pairBlocks } from '../../src/connector/nixl/params.ts';
import { RequestError } from '../../src/errors.ts';
import { request } from '../engine/fakes.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

/** Runs a turn at P with a prompt of 80 tokens, of which D has `remoteTokens`. Returns where the prompt's KV came from. */
async function turn(
  connector: ConstructorParameters<typeof ScriptedEngine>[1],
  remoteTokens: readonly number[],
  overrides: Parameters<typeof prefillRequest>[3] = {},
) {
  const engine = new ScriptedEngine({}, connector);
  const params = { remote_token_ids: remoteTokens, ...overrides } as typeof overrides;
  engine.add(prefillRequest('t2', tokens(80), remoteTokens, params));
  await engine.step();
  const waits = engine.status('t2') === 'waiting_for_remote_kvs';
  if (waits) engine.receive('t2');
  await engine.settle();
  return { engine, waits, account: engine.promptOf('t2')!, recv: engine.worker.recv('t2') };
}

describe('kv_recompute_threshold', () => {
  it('equal to the number of tokens allows the pull; one more does not', async () => {
    const equal = await turn({ recomputeThreshold: 48 }, tokens(48));
    expect(equal.account).toMatchObject({ pulledTokens: 48, computedTokens: 32, noPull: null });
    const more = await turn({ recomputeThreshold: 49 }, tokens(48));
    expect(more.waits).toBe(false);
    expect(more.account).toMatchObject({
      pulledTokens: 0,
      noPull: { by: 'policy', reason: '48 < threshold 49' },
    });
    expect(more.recv).toMatchObject({ pairs: [], remote: { requestId: 'remote-request' } });
  });

  it('is compared with the tokens beyond the local hit', async () => {
    const engine = new ScriptedEngine({}, { recomputeThreshold: 64 });
    engine.add(request('t1', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(prefillRequest('t2', tokens(80), tokens(49)));
    await engine.settle();
    expect(engine.promptOf('t2')).toEqual({
      promptTokens: 80,
      localHitTokens: 32,
      pulledTokens: 0,
      computedTokens: 48,
      noPull: { by: 'policy', reason: '17 < threshold 64' },
    });
  });

  it('of 0 allows the pull of a single token', async () => {
    expect((await turn({}, tokens(1))).account.pulledTokens).toBe(1);
  });

  it("does not apply to P's blocks: D pulls whatever it lacks", async () => {
    const engine = new ScriptedEngine({}, { recomputeThreshold: 1000 });
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
  });

  it('is not the reason if the local hit covers the offer', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('t1', tokens(80), { maxTokens: 1 }));
    await engine.settle();
    engine.add(prefillRequest('t2', tokens(80), tokens(49)));
    await engine.settle();
    expect(engine.promptOf('t2')).toMatchObject({
      noPull: { by: 'offer', reason: 'the local hit of 64 covers it' },
    });
  });
});

describe('bidirectional_kv_xfer off', () => {
  it('ignores remote blocks, tells the holder, and computes as if there were none', async () => {
    const off = await turn({ bidirectional: false }, tokens(48));
    const never = await turn({ bidirectional: false }, [], { remote_block_ids: null });
    expect(off.account).toEqual({
      ...never.account,
      noPull: { by: 'offer', reason: 'remote blocks ignored: bidirectional_kv_xfer is off' },
    });
    expect(off.account).toMatchObject({ localHitTokens: 0, pulledTokens: 0, computedTokens: 80 });
    expect(off.recv).toMatchObject({ pairs: [], remote: { engineId: 'decode-engine' } });
    expect(never.recv).toBeNull();
  });

  it('lets D hold nothing', async () => {
    const engine = new ScriptedEngine({}, { bidirectional: false });
    engine.add(decodeRequest('d', tokens(40)));
    await engine.step();
    engine.receive('d');
    await engine.settle();
    expect(engine.finishOf('d')!.kvTransferParams).toBeNull();
    expect(engine.worker.metadata.every((meta) => meta.reqsInBatch.size === 0)).toBe(true);
    expect(engine.isEmpty).toBe(true);
  });
});

describe('token check', () => {
  const rewritten = tokens(48);
  rewritten[20]! += 1;

  it('ends a pull at the first token that differs', async () => {
    const { account, recv } = await turn({}, rewritten);
    expect(account).toMatchObject({ pulledTokens: 20, computedTokens: 60 });
    expect(recv!.pairs.map((pair) => pair.remote)).toEqual([901, 902]);
  });

  it('names the differing token if it leaves nothing, or too little, to pull', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('t1', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(prefillRequest('t2', tokens(80), rewritten, { remote_token_ids: rewritten }));
    await engine.settle();
    expect(engine.promptOf('t2')!.noPull).toEqual({ by: 'offer', reason: 'first differing token at 20' });
    const few = await turn({ recomputeThreshold: 64 }, rewritten);
    expect(few.account.noPull).toEqual({
      by: 'policy',
      reason: '20 < threshold 64 (first differing token at 20)',
    });
  });

  it('applies to what P offers to D as well', async () => {
    const engine = new ScriptedEngine();
    const other = tokens(40);
    other[33]! += 1;
    engine.add(decodeRequest('d', tokens(40), 4, { remote_token_ids: other }));
    await engine.step();
    expect(engine.computed('d')).toBe(33);
    engine.receive('d');
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 33, computedTokens: 7 });
  });

  it('pulls nothing if remote_token_ids is missing', async () => {
    const { account, recv } = await turn({}, tokens(48), { remote_token_ids: null });
    expect(account.noPull).toEqual({
      by: 'offer',
      reason: 'invalid kv_transfer_params: remote_token_ids is missing',
    });
    expect(recv).toMatchObject({ pairs: [] });
  });

  it('if off, trusts the caller as vLLM does, and so pulls wrong KV for a rewritten history', async () => {
    const engine = new ScriptedEngine({}, { tokenCheck: false });
    engine.add(prefillRequest('t2', tokens(80), rewritten, { remote_token_ids: null }));
    await engine.step();
    expect(engine.computed('t2')).toBe(48);
    expect(engine.worker.recv('t2')!.pairs.map((pair) => pair.remote)).toEqual([901, 902, 903]);
  });

  it('if off, still pairs blocks by index when the prompt is shorter', async () => {
    const engine = new ScriptedEngine({}, { tokenCheck: false });
    engine.add(prefillRequest('t2', tokens(20), tokens(80), { remote_token_ids: null }));
    await engine.step();
    expect(engine.worker.recv('t2')!.pairs.map((pair) => pair.remote)).toEqual([901, 902]);
  });
});

describe('invalid parameters', () => {
  for (const key of ['remote_engine_id', 'remote_request_id', 'remote_host', 'remote_port']) {
    it(`without ${key} pull nothing, and nobody is notified`, async () => {
      const { account, recv, waits } = await turn({}, tokens(48), { [key]: null });
      expect(waits).toBe(false);
      expect(account.noPull).toEqual({
        by: 'offer',
        reason: `invalid kv_transfer_params: ${key} is missing`,
      });
      expect(recv).toBeNull();
    });
  }

  it('with fewer blocks than the tokens need pull nothing, and the holder is told', async () => {
    const { account, recv } = await turn({}, tokens(48), { remote_block_ids: [[7, 8]] });
    expect(account.noPull).toEqual({
      by: 'offer',
      reason: 'invalid kv_transfer_params: 2 remote blocks, but 48 tokens need 3',
    });
    expect(recv).toMatchObject({ pairs: [] });
  });

  it('with neither role keep the request out of transfers', async () => {
    const engine = new ScriptedEngine();
    engine.add(
      request(
        'a',
        tokens(20),
        { maxTokens: 2 },
        { kvTransferParams: { do_remote_decode: false, do_remote_prefill: false } },
      ),
    );
    await engine.settle();
    expect(engine.finishOf('a')!.kvTransferParams).toBeNull();
    expect(engine.worker.metadata).toEqual([]);
    expect(engine.isEmpty).toBe(true);
  });
});

describe('a request that never ran', () => {
  for (const make of [prefillRequest, decodeRequest] as const) {
    it(`makes its holder free the blocks if it is aborted while waiting (${make.name})`, async () => {
      const engine = new ScriptedEngine({ maxNumSeqs: 1 });
      engine.add(request('first', tokens(8), { maxTokens: 3 }));
      const late =
        make === prefillRequest
          ? prefillRequest('x', tokens(80), tokens(48))
          : decodeRequest('x', tokens(40));
      engine.add(late);
      await engine.step();
      engine.core.abortRequest('x');
      await engine.settle();
      expect(engine.worker.recv('x')).toMatchObject({ pairs: [], remote: { requestId: 'remote-request' } });
      expect(engine.finishOf('x')!.kvTransferParams).toBeNull();
      expect(engine.isEmpty).toBe(true);
    });
  }

  it('makes its holder free the blocks if it is refused on arrival', async () => {
    const engine = new ScriptedEngine({ maxModelLen: 30 });
    expect(() => engine.add(decodeRequest('x', tokens(40)))).toThrow(RequestError);
    expect(engine.core.poll()).toBe(true);
    await engine.settle();
    expect(engine.worker.recv('x')).toMatchObject({ pairs: [] });
    expect(engine.isEmpty).toBe(true);
  });
});

describe('pairBlocks and commonPrefixLength', () => {
  it('pairBlocks pairs blocks by index beyond the local hit, and omits null blocks', () => {
    const local = [
      [5, 6, 7, 8],
      [9, 0, 10, 11],
    ];
    const remote = [
      [21, 22, 23, 24],
      [31, 32, 33, 34],
    ];
    expect(pairBlocks(remote, local, 4, 13, 4)).toEqual([
      { group: 0, remote: 22, local: 6 },
      { group: 0, remote: 23, local: 7 },
      { group: 0, remote: 24, local: 8 },
      { group: 1, remote: 33, local: 10 },
      { group: 1, remote: 34, local: 11 },
    ]);
  });

  it('commonPrefixLength is how far both lists agree', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(2)), fc.array(fc.nat(2)), (a, b) => {
        const n = commonPrefixLength(a, b);
        expect(a.slice(0, n)).toEqual(b.slice(0, n));
        expect(n === Math.min(a.length, b.length) || a[n] !== b[n]).toBe(true);
      }),
    );
  });
});
