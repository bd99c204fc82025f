/** Lookups of what an engine has cached of a prompt: they compute nothing and must match what a later request gets. */
import { describe, expect, it } from 'vitest';
import { TestClock } from '../clock.ts';
import { ScriptedEngine } from '../connector/scripted.ts';
import { engineConfig, request, TestEngine, tokens } from './fakes.ts';

const MISS = { do_remote_decode: true, do_remote_prefill: false };

describe('inspect.lookup()', () => {
  it('returns what a later request hits, and runs no step', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(100), { maxTokens: 10 }));
    await engine.settle();
    const before = engine.core.inspect.stats();
    const asked = [tokens(100), tokens(64), tokens(70), tokens(15), tokens(64, 9), [...tokens(40), 5, 6]];
    const answers = asked.map((ids) => engine.core.inspect.lookup(ids, null));
    expect(engine.core.inspect.stats()).toEqual(before);
    expect(engine.core.poll()).toBe(false);
    expect(answers.map(({ cachedTokens }) => cachedTokens)).toEqual([96, 64, 64, 0, 0, 32]);
    for (const [i, ids] of asked.entries()) {
      const { hitTokens, blockIds, blockHashes, cachedTokens } = engine.core.inspect.lookup(ids, null);
      expect(blockHashes).toHaveLength(cachedTokens / 16);
      engine.add(request(`${i}`, ids, { maxTokens: 1 }));
      await engine.step();
      expect(engine.promptOf(`${i}`)!.localHitTokens).toBe(hitTokens);
      expect(blockIds[0]!.slice(0, hitTokens / 16)).toHaveLength(hitTokens / 16);
      await engine.settle();
    }
  });

  it('works while a request runs, without changing what the request generates', async () => {
    const engine = new TestEngine(engineConfig({ maxNumBatchedTokens: 16 }));
    engine.add(request('a', tokens(64), { maxTokens: 4 }));
    await engine.step();
    // The first chunk's block can be hit as soon as it is scheduled, as it can by a request.
    expect(engine.core.inspect.lookup(tokens(64), null).cachedTokens).toBe(16);
    expect(engine.core.inspect.stats()).toMatchObject({ steps: 1, forwardPasses: 1 });
    await engine.settle();
    const alone = new TestEngine(engineConfig({ maxNumBatchedTokens: 16 }));
    alone.add(request('a', tokens(64), { maxTokens: 4 }));
    await alone.settle();
    expect(engine.tokensOf('a')).toEqual(alone.tokensOf('a'));
  });

  it('lists held blocks of the same tokens and salt, including a partly filled last one', async () => {
    const engine = new ScriptedEngine({ prefixCaching: false });
    engine.add(request('held', tokens(40), { maxTokens: 1 }, { kvTransferParams: MISS }));
    await engine.settle();
    const longer = [...tokens(40), ...engine.tokensOf('held'), 3, 4];
    const { cachedTokens, held } = engine.core.inspect.lookup(longer, null);
    expect(cachedTokens).toBe(0);
    expect(held).toMatchObject([{ requestId: 'held', direction: 'prefill', numTokens: 40 }]);
    expect(held[0]!.blockIds[0]).toHaveLength(3);
    expect(held[0]!.deadlineMs).toBe(engine.clock.now() + 30_000);
    expect(engine.core.inspect.lookup(tokens(20), null).held[0]).toMatchObject({ numTokens: 20 });
    expect(engine.core.inspect.lookup(tokens(20), null).held[0]!.blockIds[0]).toHaveLength(2);
    expect(engine.core.inspect.lookup(tokens(40, 5), null).held).toEqual([]);
    expect(engine.core.inspect.lookup(longer, 'another tenant').held).toEqual([]);
    engine.worker.finishSending('held');
    await engine.settle();
    expect(engine.core.inspect.lookup(longer, null).held).toEqual([]);
  });
});

describe('times of a request', () => {
  it('are its arrival, when it was queued and when it was first scheduled', async () => {
    const clock = new TestClock(1000);
    const engine = new TestEngine(engineConfig({ maxNumSeqs: 1 }), { clock });
    engine.add({ ...request('a', tokens(20), { maxTokens: 2 }), arrivalMs: 990 });
    engine.add(request('b', tokens(20, 1), { maxTokens: 1 }));
    clock.advance(5);
    await engine.step();
    clock.advance(5);
    await engine.settle();
    expect(engine.outputs.find((o) => o.requestId === 'a')!.times).toEqual({
      arrivalMs: 990,
      queuedMs: 1000,
      scheduledMs: 1005,
    });
    expect(engine.endOf('b')!.times).toEqual({ arrivalMs: 1000, queuedMs: 1000, scheduledMs: 1010 });
  });

  it('have a null scheduledMs if it was never scheduled', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(20)));
    engine.core.abortRequest('a');
    await engine.settle();
    expect(engine.endOf('a')!.times.scheduledMs).toBeNull();
    expect(engine.core.inspect.stats().forwardPasses).toBe(0);
  });
});

it('the prefix cache counts no queries with prefix caching off', async () => {
  const engine = new TestEngine(engineConfig({ prefixCaching: false }));
  engine.add(request('a', tokens(40), { maxTokens: 1 }));
  await engine.settle();
  expect(engine.core.inspect.stats().prefixCache).toEqual({ queries: 0, hits: 0 });
});

it('cache events are reported only while onCacheEvent is set', async () => {
  const engine = new TestEngine(engineConfig());
  engine.add(request('a', tokens(40), { maxTokens: 1 }));
  await engine.settle();
  const heard: string[] = [];
  engine.core.onCacheEvent = (event) => heard.push(event.kind);
  engine.add(request('b', tokens(40, 1), { maxTokens: 1 }));
  await engine.settle();
  engine.core.onCacheEvent = null;
  engine.core.resetPrefixCache();
  expect(heard).toEqual(['stored']);
});
