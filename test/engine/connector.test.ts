/** An engine with a connector that has no facets, and with one that cannot say yet what it can load. */
import { describe, expect, it } from 'vitest';
import { engineConfig, KvModel, request, type Sizes, TestEngine, tokens } from './fakes.ts';
import { ToyConnector, type ToyStore } from './toy-connector.ts';

function engineOn(store: ToyStore, sizes: Sizes = {}) {
  const config = engineConfig(sizes);
  const { blockSize } = config.cache;
  const connector = new ToyConnector(store, blockSize);
  const engine = new TestEngine(config, { connector });
  const copyOf = (block: number) => {
    const copy = new KvModel(blockSize);
    copy.copyBlock(engine.model, block, 1);
    return copy;
  };
  connector.kv = { own: engine.model, copyOf };
  return { engine, connector };
}

describe('a connector without facets', () => {
  it.each([true, false])('loads what another engine stored, prefix caching %s', async (prefixCaching) => {
    const store: ToyStore = new Map();
    const first = engineOn(store, { prefixCaching }).engine;
    first.add(request('a', tokens(40), { maxTokens: 20 }));
    await first.settle();
    const prompt = [...tokens(40), ...first.tokensOf('a')];
    const second = engineOn(store, { prefixCaching }).engine;
    second.add(request('b', prompt, { maxTokens: 5 }));
    await second.settle();
    // 59 tokens had KV: three blocks are full.
    expect(second.promptOf('b')).toMatchObject({ localHitTokens: 0, pulledTokens: 48, computedTokens: 12 });
    const alone = new TestEngine(engineConfig());
    alone.add(request('b', prompt, { maxTokens: 5 }));
    await alone.settle();
    expect(second.tokensOf('b')).toEqual(alone.tokensOf('b'));
    expect(second.core.hasWork()).toBe(false);
  });

  it('never has more hits than queries counted, even if a request starts over', async () => {
    const store: ToyStore = new Map();
    const first = engineOn(store, { blockSize: 4 }).engine;
    const prompts = [tokens(16, 1), tokens(16, 2)];
    for (const [i, prompt] of prompts.entries()) first.add(request(`${i}`, prompt, { maxTokens: 1 }));
    await first.settle();
    const { engine } = engineOn(store, { blockSize: 4, numBlocks: 11, prefixCaching: false });
    for (const [i, prompt] of prompts.entries()) engine.add(request(`${i}`, prompt, { maxTokens: 12 }));
    await engine.settle();
    const { preemptions, externalPrefixCache } = engine.core.inspect.stats();
    expect(preemptions).toBeGreaterThan(0);
    expect(externalPrefixCache).toEqual({ queries: 32, hits: 24 });
  });

  it('has no holds to drop, so a request that does not fit waits and says why', async () => {
    const { engine } = engineOn(new Map(), { blockSize: 4, numBlocks: 9, maxNumBatchedTokens: 6 });
    engine.add(request('a', tokens(20, 1), { maxTokens: 8 }));
    engine.add(request('b', tokens(16, 2), { maxTokens: 1 }));
    for (let step = 0; step < 6; step++) await engine.step();
    expect(engine.core.inspect.waitingReason('b')).toMatch(/: other requests have them$/);
    await engine.settle();
    expect(engine.finishOf('b')?.reason).toBe('length');
  });
});

describe('a connector that cannot answer yet', () => {
  it('parks the request: the engine takes no step until the connector reports a change', async () => {
    const store: ToyStore = new Map();
    const stored = engineOn(store).engine;
    stored.add(request('a', tokens(40), { maxTokens: 1 }));
    await stored.settle();
    const { engine, connector } = engineOn(store);
    connector.ready = false;
    engine.add(request('b', tokens(60), { maxTokens: 2 }));
    await engine.settle();
    expect(connector.asked).toBe(1);
    expect(engine.core.inspect.waitingReason('b')).toBe('waits for the connector to say what can be loaded');
    expect(engine.core.poll()).toBe(false);
    expect(engine.core.hasWork()).toBe(true);

    let woke = false;
    const waiting = engine.core.waitForChange(new AbortController().signal).then(() => {
      woke = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(woke).toBe(false);
    connector.ready = true;
    await waiting;
    expect(engine.core.poll()).toBe(true);
    await engine.step();
    expect(engine.core.inspect.waitingReason('b')).not.toMatch(/hear/);
    await engine.settle();
    expect(engine.promptOf('b')).toMatchObject({ pulledTokens: 32, computedTokens: 28 });
  });

  it('is asked again when anything else changes, also about requests behind the parked one', async () => {
    const { engine, connector } = engineOn(new Map());
    connector.ready = false;
    engine.add(request('a', tokens(20), { maxTokens: 2 }));
    await engine.settle();
    engine.core.abortRequest('nobody');
    expect(engine.core.poll()).toBe(false);
    engine.add(request('b', tokens(20, 1), { maxTokens: 2 }));
    await engine.settle();
    expect(connector.asked).toBe(3);
    engine.core.abortRequest('a');
    await engine.settle();
    expect(connector.asked).toBe(4);
    connector.ready = true;
    await engine.settle();
    expect(engine.finishOf('b')?.reason).toBe('length');
    expect(engine.core.hasWork()).toBe(false);
  });
});
