/** Which request proceeds when blocks are short, and what is given up for it. */
import { describe, expect, it } from 'vitest';
import { decodeRequest, prefillRequest, ScriptedEngine } from '../connector/scripted.ts';
import { engineConfig, request, TestEngine, tokens } from './fakes.ts';
import { ToyConnector } from './toy-connector.ts';

describe('a request whose KV has arrived, next to a running one', () => {
  /** Six blocks: two hold r's 32 tokens, three are loaded for d. d needs a fourth, but r has taken the sixth by then. */
  async function crowded(maxNumBatchedTokens?: number) {
    const engine = new ScriptedEngine({
      numBlocks: 7,
      ...(maxNumBatchedTokens ? { maxNumBatchedTokens } : {}),
    });
    engine.add(request('r', tokens(32, 1), { maxTokens: 20 }));
    engine.add(decodeRequest('d', tokens(60), 2, { remote_num_tokens: 48 }));
    await engine.step();
    expect(engine.status('d')).toBe('waiting_for_remote_kvs');
    await engine.step();
    engine.receive('d');
    await engine.step();
    return engine;
  }

  it('waits for a block, and proceeds when the other is preempted', async () => {
    const engine = await crowded();
    expect(engine.core.inspect.stats()).toMatchObject({
      running: 1,
      waiting: 1,
      freeBlocks: 0,
      heldRequests: 0,
    });
    expect(engine.core.inspect.waitingReason('d')).toBe(
      'waits for 1 blocks, 0 of 6 are free: other requests have them',
    );
    await engine.settle();
    expect(engine.finishOf('r')!.numPreemptions).toBe(1);
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 48, computedTokens: 12 });
    expect(engine.finishOf('d')!.numPreemptions).toBe(0);
    expect(engine.core.inspect.stats()).toMatchObject({ running: 0, waiting: 0 });
  });

  it('goes before a waiting request, even if that one would fit', async () => {
    const engine = new ScriptedEngine({ numBlocks: 9 });
    engine.add(request('r', tokens(32, 1), { maxTokens: 20 }));
    engine.add(decodeRequest('d', tokens(92), 2, { remote_num_tokens: 48 }));
    await engine.step();
    await engine.step();
    engine.receive('d');
    await engine.step();
    // d needs three more blocks, and two are free.
    expect(engine.core.inspect.stats()).toMatchObject({ running: 1, waiting: 1, freeBlocks: 2 });
    engine.add(request('w', tokens(8, 2), { maxTokens: 1 }));
    await engine.step();
    expect(engine.core.inspect.requestState('w')!.status).toBe('waiting');
    expect(engine.core.inspect.waitingReason('w')).toBe('waits behind 1 other request');
    await engine.settle();
    const rows = engine.model.batches.flatMap(({ requests }) => requests.map(({ requestId }) => requestId));
    expect(rows.indexOf('d')).toBeLessThan(rows.indexOf('w'));
  });

  it('waits while the other’s prefill takes the whole token budget of each step', async () => {
    const engine = new ScriptedEngine({ maxNumBatchedTokens: 16 });
    engine.add(decodeRequest('d', tokens(40), 2));
    await engine.step();
    engine.add(request('r', tokens(64, 1), { maxTokens: 1 }));
    await engine.step();
    engine.receive('d');
    await engine.settle();
    const steps = engine.model.batches.map((_, i) => engine.scheduledIn(i));
    expect(steps).toEqual([{ r: 16 }, { r: 16 }, { r: 16 }, { r: 16 }, { d: 1 }, { d: 1 }]);
  });
});

describe('the pressure to drop a hold', () => {
  it('is "waiting" while another request can proceed, and "stuck" if none can', async () => {
    const engine = new ScriptedEngine({ numBlocks: 4, prefixCaching: false });
    // Blocks that P holds for a D: this worker side never drops them.
    engine.add(prefillRequest('held', tokens(16, 1), null));
    await engine.settle();
    expect(engine.worker.pressures).toEqual([]);
    engine.add(request('alone', tokens(20, 2), { maxTokens: 20 }));
    for (let step = 0; step < 14; step++) await engine.step();
    expect(engine.worker.pressures[0]).toBe('stuck');
    engine.core.abortRequest('alone');
    engine.worker.finishSending('held');
    await engine.settle();

    engine.worker.pressures.length = 0;
    engine.add(request('a', tokens(14, 3), { maxTokens: 20 }));
    engine.add(request('b', tokens(14, 4), { maxTokens: 20 }));
    await engine.step();
    engine.add(prefillRequest('c', tokens(40, 5), null));
    await engine.step();
    expect(engine.worker.pressures).toEqual(['waiting']);
    engine.worker.pressures.length = 0;
    for (let step = 0; step < 4; step++) await engine.step();
    // Both need a second block, and one is free.
    expect(new Set(engine.worker.pressures)).toEqual(new Set(['waiting']));
  });

  it('is "waiting", not "stuck", while KV is arriving', async () => {
    const engine = new ScriptedEngine({ numBlocks: 5, prefixCaching: false });
    engine.add(decodeRequest('d', tokens(32), 2));
    await engine.step();
    engine.add(request('w', tokens(40, 1), { maxTokens: 2 }));
    await engine.step();
    expect(engine.worker.pressures).toEqual(['waiting']);
    engine.core.abortRequest('w');
    engine.add(request('r', tokens(16, 2), { maxTokens: 30 }));
    engine.worker.pressures.length = 0;
    for (let step = 0; step < 18; step++) await engine.step();
    expect(engine.worker.pressures.length).toBeGreaterThan(0);
    expect(new Set(engine.worker.pressures)).toEqual(new Set(['waiting']));
  });
});

describe('a preemption', () => {
  it('costs no step of the request that gets the blocks', async () => {
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 9 }));
    engine.add(request('a', tokens(12, 1), { maxTokens: 16 }));
    engine.add(request('b', tokens(12, 2), { maxTokens: 16 }));
    let steps = 0;
    for (; !engine.finishOf('a'); steps++) await engine.step();
    expect(engine.core.inspect.stats().preemptions).toBeGreaterThan(0);
    expect(steps).toBe(16);
  });

  it('of computed KV is not given as a reason why nothing was pulled', async () => {
    const engine = new ScriptedEngine({ numBlocks: 7, maxNumBatchedTokens: 4, prefixCaching: false });
    engine.add(request('r', tokens(30, 1), { maxTokens: 40 }));
    for (let step = 0; step < 8; step++) await engine.step();
    engine.add(decodeRequest('d', tokens(48), 2, { remote_num_tokens: 16 }));
    await engine.step();
    engine.receive('d');
    for (let step = 0; step < 3; step++) await engine.step();
    engine.add(request('late', tokens(16, 3), { maxTokens: 1 }));
    await engine.settle();
    expect(engine.finishOf('r')!.reason).toBe('length');
    expect(engine.promptOf('r')!.noPull).toBeNull();
    expect(engine.promptOf('late')!.noPull).toBeNull();
    expect(engine.finishOf('d')!.reason).toBe('length');
  });

  it('works with a connector that has no preemption callback', async () => {
    const connector = new ToyConnector(new Map(), 4);
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 9 }), { connector });
    connector.kv = { own: engine.model, copyOf: () => engine.model };
    engine.add(request('a', tokens(12, 1), { maxTokens: 16 }));
    engine.add(request('b', tokens(12, 2), { maxTokens: 16 }));
    await engine.settle();
    expect(engine.core.inspect.stats().preemptions).toBeGreaterThan(0);
    expect(engine.finishOf('b')?.reason).toBe('length');
  });
});

describe('the statistics of the external prefix cache', () => {
  it('count as queries the tokens that are not cached locally, once per request', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('a', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(request('b', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    const { prefixCache, externalPrefixCache } = engine.core.inspect.stats();
    expect(prefixCache).toEqual({ queries: 80, hits: 32 });
    expect(externalPrefixCache).toEqual({ queries: 48, hits: 0 });
  });

  it('count nothing without a connector', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    expect(engine.core.inspect.stats().externalPrefixCache).toEqual({ queries: 0, hits: 0 });
  });
});
