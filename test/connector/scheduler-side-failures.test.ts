/** Pulls that fail: vLLM's kv_load_failure_policy for asynchronous loads, and what a holder's refusal means here. */
import { describe, expect, it } from 'vitest';
import { request } from '../engine/fakes.ts';
import { range } from '../transport/helpers.ts';
import { decodeRequest, prefillRequest, ScriptedEngine, tokens } from './scripted.ts';

/** D waits for 99 blocks, of which only the first `good` come. */
async function failing(
  policy: 'fail' | 'recompute',
  good: number,
  outcome: 'failed' | 'declined' | 'expired' | 'dead',
) {
  const engine = new ScriptedEngine(
    { numBlocks: 200, maxModelLen: 2048, maxNumBatchedTokens: 2048 },
    { loadFailurePolicy: policy },
  );
  const prompt = tokens(99 * 16);
  engine.add(decodeRequest('d', prompt, 3));
  engine.add(request('other', tokens(20, 5), { maxTokens: 8 }));
  await engine.step();
  engine.arrive('d', good);
  engine.worker.failRecving('d', outcome, engine.blocks('d').slice(good) as number[]);
  await engine.step();
  return engine;
}

describe("load failure policy 'recompute'", () => {
  for (const good of [0, 50, 98]) {
    it(`keeps what came of a load that failed from block ${good} of 99 on, and computes only the rest`, async () => {
      const engine = await failing('recompute', good, 'failed');
      expect(engine.scheduledIn(1)).toEqual({ d: (99 - good) * 16, other: 1 });
      await engine.settle();
      expect(engine.promptOf('d')).toEqual({
        promptTokens: 99 * 16,
        localHitTokens: 0,
        pulledTokens: good * 16,
        computedTokens: (99 - good) * 16,
        noPull: good > 0 ? null : { by: 'transfer', reason: 'pull failed: the test says so' },
      });
      expect(engine.finishOf('d')!.reason).toBe('length');
      expect(engine.finishOf('other')!.reason).toBe('length');
      expect(engine.worker.metadata.filter((meta) => meta.reqsToRecv.has('d'))).toHaveLength(1);
    });
  }

  it('test_invalid_blocks_correctness: caches nothing behind an invalid block, even if it came', async () => {
    const engine = new ScriptedEngine({ maxNumBatchedTokens: 16 }, { loadFailurePolicy: 'recompute' });
    engine.add(decodeRequest('d', tokens(64), 3));
    await engine.step();
    engine.arrive('d');
    engine.worker.failRecving('d', 'failed', [engine.blocks('d')[1]!]);
    await engine.step();
    // Block 0 came, block 1 was just computed; 2 and 3 came as well, but behind an invalid one.
    expect(engine.core.inspect.lookup(tokens(64), null).cachedTokens).toBe(32);
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 16, computedTokens: 48 });
  });

  it('keeps what came in every group if only some groups lack blocks', async () => {
    const groups = [{ kind: 'full' }, { kind: 'full' }] as const;
    const engine = new ScriptedEngine({ groups }, { loadFailurePolicy: 'recompute' });
    const remote_block_ids = [range(901, 4), range(951, 4)];
    engine.add(decodeRequest('d', tokens(64), 3, { remote_block_ids }));
    await engine.step();
    engine.arrive('d');
    engine.worker.failRecving('d', 'failed', [engine.blocks('d')[2]!]);
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 32, computedTokens: 32 });
  });

  it('keeps the local hit', async () => {
    const engine = new ScriptedEngine({}, { loadFailurePolicy: 'recompute' });
    engine.add(request('before', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(decodeRequest('d', tokens(60), 2));
    await engine.step();
    engine.worker.failRecving('d', 'dead', engine.blocks('d').slice(2) as number[]);
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({
      localHitTokens: 32,
      pulledTokens: 0,
      computedTokens: 28,
      noPull: { by: 'transfer', reason: 'pull dead: the test says so' },
    });
  });

  it('keeps nothing of a load whose failure names no block', async () => {
    const engine = new ScriptedEngine({}, { loadFailurePolicy: 'recompute' });
    engine.add(decodeRequest('d', tokens(60), 2));
    await engine.step();
    engine.worker.failRecving('d', 'failed', []);
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 0, computedTokens: 60 });
  });
});

describe("load failure policy 'fail'", () => {
  for (const outcome of ['failed', 'expired', 'dead'] as const) {
    it(`test_error_propagation: '${outcome}' ends the request with an error, and nothing stays queued`, async () => {
      const engine = await failing('fail', 50, outcome);
      const end = engine.endOf('d')!;
      expect(end).toMatchObject({ tokens: [], prompt: null });
      expect(end.finish).toMatchObject({ reason: 'error', kvTransferParams: null });
      const message = `the KV of request d did not arrive (${outcome}): the test says so`;
      // Asking for expired blocks is no fault of this engine.
      const code = outcome === 'expired' ? 'expired' : 'transfer';
      expect(end.finish!.error).toEqual({ code, message });
      expect(engine.status('d')).toBeNull();
      await engine.settle();
      expect(engine.finishOf('other')!.reason).toBe('length');
      expect(engine.isEmpty).toBe(true);
      // test_cache_pollution_prevention: nothing of the failed load can be hit.
      expect(engine.core.inspect.lookup(tokens(99 * 16), null).cachedTokens).toBe(0);
    });
  }

  it('recomputes blocks that the holder declined, because dropping them was not a fault', async () => {
    const engine = await failing('fail', 0, 'declined');
    await engine.settle();
    expect(engine.promptOf('d')).toMatchObject({
      computedTokens: 99 * 16,
      noPull: { by: 'transfer', reason: 'pull declined: the test says so' },
    });
    expect(engine.finishOf('d')!.reason).toBe('length');
  });

  it('leaves nothing to send at a P node whose pull expired', async () => {
    const engine = new ScriptedEngine();
    engine.add(prefillRequest('p', tokens(60), tokens(48)));
    await engine.step();
    engine.worker.failRecving('p', 'expired', [...engine.blocks('p')]);
    await engine.settle();
    expect(engine.finishOf('p')).toMatchObject({ reason: 'error', kvTransferParams: null });
    expect(engine.worker.metadata.at(-1)!.reqsNotProcessed).toEqual(new Set(['p']));
    expect(engine.isEmpty).toBe(true);
  });

  it('only frees the blocks of a request that was aborted before its load failed', async () => {
    const engine = new ScriptedEngine();
    engine.add(decodeRequest('d', tokens(60)));
    await engine.step();
    engine.core.abortRequest('d');
    engine.worker.failRecving('d', 'failed', [1]);
    await engine.settle();
    expect(engine.outputs.filter((output) => output.requestId === 'd')).toHaveLength(1);
    expect(engine.isEmpty).toBe(true);
  });
});

describe('counters of a pull that fails', () => {
  it.each([0, 50])('count the %i blocks that came as hits, and each query once', async (good) => {
    const engine = await failing('recompute', good, 'failed');
    await engine.settle();
    expect(engine.core.inspect.stats()).toMatchObject({
      prefixCache: { queries: 99 * 16 + 20, hits: 0 },
      externalPrefixCache: { queries: 99 * 16 + 20, hits: good * 16 },
      noPulls: { transfer: good > 0 ? 0 : 1, policy: 0 },
    });
  });
});
