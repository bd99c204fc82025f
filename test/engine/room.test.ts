/** Who gets on when there is little room, and what is given up for it. */
import { describe, expect, it } from 'vitest';
import { decodeRequest, prefillRequest, ScriptedEngine } from '../connector/scripted.ts';
import { engineConfig, request, TestEngine, tokens } from './fakes.ts';
import { ToyConnector } from './toy-connector.ts';

describe('beside a request that runs, one whose KV came', () => {
  /** Six blocks: two of r's 32 tokens, and three loaded for d, which wants a fourth when r has taken the sixth. */
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

  it('waits for a block, and gets on when the other gives all back', async () => {
    const engine = await crowded();
    expect(engine.core.inspect.stats()).toMatchObject({ running: 1, waiting: 1, freeBlocks: 0 });
    expect(engine.core.inspect.waitingReason('d')).toBe(
      'waits for 1 blocks, 0 of 6 are free: other requests have them',
    );
    await engine.settle();
    expect(engine.finishOf('r')!.numPreemptions).toBe(1);
    expect(engine.promptOf('d')).toMatchObject({ pulledTokens: 48, computedTokens: 12 });
    expect(engine.finishOf('d')!.numPreemptions).toBe(0);
    expect(engine.core.inspect.stats()).toMatchObject({ running: 0, waiting: 0 });
  });

  it('comes before those that wait, though these would fit', async () => {
    const engine = new ScriptedEngine({ numBlocks: 9 });
    engine.add(request('r', tokens(32, 1), { maxTokens: 20 }));
    engine.add(decodeRequest('d', tokens(92), 2, { remote_num_tokens: 48 }));
    await engine.step();
    await engine.step();
    engine.receive('d');
    await engine.step();
    // d wants three more blocks, and two are free.
    expect(engine.core.inspect.stats()).toMatchObject({ running: 1, waiting: 1, freeBlocks: 2 });
    engine.add(request('w', tokens(8, 2), { maxTokens: 1 }));
    await engine.step();
    expect(engine.core.inspect.requestState('w')!.status).toBe('waiting');
    expect(engine.core.inspect.waitingReason('w')).toBe('waits behind 1 other request');
    await engine.settle();
    const rows = engine.model.batches.flatMap(({ requests }) => requests.map(({ requestId }) => requestId));
    expect(rows.indexOf('d')).toBeLessThan(rows.indexOf('w'));
  });

  it('waits for its part of the step', async () => {
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

describe('holds are asked for', () => {
  it('as somebody runs beside, or else as nobody gets on without', async () => {
    const engine = new ScriptedEngine({ numBlocks: 4, prefixCaching: false });
    // Held by P for a D: this worker side never drops it.
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
    // Both want a second block, and one is free.
    expect(new Set(engine.worker.pressures)).toEqual(new Set(['waiting']));
  });

  it('not as if nobody got on, where KV is on its way', async () => {
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
  it('costs the one that it is for no step', async () => {
    const engine = new TestEngine(engineConfig({ blockSize: 4, numBlocks: 9 }));
    engine.add(request('a', tokens(12, 1), { maxTokens: 16 }));
    engine.add(request('b', tokens(12, 2), { maxTokens: 16 }));
    let steps = 0;
    for (; !engine.finishOf('a'); steps++) await engine.step();
    expect(engine.core.inspect.stats().preemptions).toBeGreaterThan(0);
    expect(steps).toBe(16);
  });

  it('of what was computed is no reason that nothing was pulled; of what was pulled it is', async () => {
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

  it('needs no connector that hears of it', async () => {
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

describe('what was asked of others', () => {
  it('is what is not here, once a request', async () => {
    const engine = new ScriptedEngine();
    engine.add(request('a', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    engine.add(request('b', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    const { prefixCache, externalPrefixCache } = engine.core.inspect.stats();
    expect(prefixCache).toEqual({ queries: 80, hits: 32 });
    expect(externalPrefixCache).toEqual({ queries: 48, hits: 0 });
  });

  it('is nothing without a connector', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(40), { maxTokens: 1 }));
    await engine.settle();
    expect(engine.core.inspect.stats().externalPrefixCache).toEqual({ queries: 0, hits: 0 });
  });
});
