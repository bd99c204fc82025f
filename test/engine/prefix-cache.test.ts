import { describe, expect, it } from 'vitest';
import { type BlockHasher, createBlockHasher } from '../../src/engine/block-hash.ts';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { engineConfig, request, TestEngine, tokens } from './fakes.ts';

describe('block hash chain', () => {
  const hasher = createBlockHasher('seed');
  const first = (h: BlockHasher, salt: string | null = null) => h.hash(h.root, [1, 2], salt);

  it('is equal for equal seeds and differs for different ones', () => {
    expect(first(createBlockHasher('seed'))).toBe(first(hasher));
    expect(first(createBlockHasher('other'))).not.toBe(first(hasher));
    expect(first(hasher)).toMatch(/^[0-9a-f]{64}$/);
  });

  it('covers the parent, the tokens, their order and the salt', () => {
    const h = (parent: string, ids: number[], salt: string | null = null) => hasher.hash(parent, ids, salt);
    const hashes = [
      h(hasher.root, [1, 2]),
      h(hasher.root, [2, 1]),
      h(h(hasher.root, [1, 2]), [1, 2]),
      h(hasher.root, [1, 2], 'a'),
      h(hasher.root, [1, 2], ''),
      h(hasher.root, [1, 258]),
    ];
    expect(new Set(hashes).size).toBe(hashes.length);
  });

  it('uses the digest function it is given', () => {
    const constant = createBlockHasher('seed', () => new Uint8Array([7]));
    expect(first(constant)).toBe('07');
  });
});

describe('prefix cache', () => {
  async function served(engine: TestEngine, id: string, prompt: number[], salt: string | null = null) {
    engine.add(request(id, prompt, { maxTokens: 1 }, { cacheSalt: salt }));
    await engine.settle();
    return engine.promptOf(id)!;
  }

  it('hits full blocks only, and leaves at least one token of the prompt to compute', async () => {
    const engine = new TestEngine(engineConfig());
    expect(await served(engine, 'a', tokens(48))).toMatchObject({ localHitTokens: 0, computedTokens: 48 });
    expect(await served(engine, 'same', tokens(48))).toMatchObject({
      localHitTokens: 32,
      computedTokens: 16,
    });
    expect(await served(engine, 'longer', tokens(60))).toMatchObject({ localHitTokens: 48 });
    expect(await served(engine, 'shorter', tokens(40))).toMatchObject({ localHitTokens: 32 });
    expect(engine.core.inspect.stats().prefixCache).toEqual({
      queries: 48 + 48 + 60 + 40,
      hits: 32 + 48 + 32,
    });
  });

  it('stops at the first block that differs', async () => {
    const engine = new TestEngine(engineConfig());
    await served(engine, 'a', tokens(64));
    const changed = tokens(64);
    changed[20]! += 1;
    expect(await served(engine, 'b', changed)).toMatchObject({ localHitTokens: 16 });
  });

  it('shares nothing between salts', async () => {
    const engine = new TestEngine(engineConfig());
    await served(engine, 'a', tokens(48), 'tenant a');
    expect(await served(engine, 'b', tokens(48), 'tenant b')).toMatchObject({ localHitTokens: 0 });
    expect(await served(engine, 'c', tokens(48), 'tenant a')).toMatchObject({ localHitTokens: 32 });
  });

  it('finds, stores and reports nothing when it is off', async () => {
    const events: CacheEvent[] = [];
    const engine = new TestEngine(engineConfig({ prefixCaching: false }));
    engine.core.onCacheEvent = (event) => events.push(event);
    await served(engine, 'a', tokens(48));
    expect(await served(engine, 'b', tokens(48))).toMatchObject({ localHitTokens: 0, computedTokens: 48 });
    expect(engine.core.inspect.lookup(tokens(48), null).cachedTokens).toBe(0);
    expect(events).toEqual([]);
  });

  it('is shared by requests of one step', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(40), { maxTokens: 2 }));
    engine.add(request('b', tokens(40), { maxTokens: 2 }));
    await engine.step();
    expect(engine.core.inspect.requestState('b')!.blockIds[0]!.slice(0, 2)).toEqual(
      engine.core.inspect.requestState('a')!.blockIds[0]!.slice(0, 2),
    );
    await engine.settle();
    expect(engine.tokensOf('b')).toEqual(engine.tokensOf('a'));
  });

  it('caches generated tokens too, and lookups allocate no blocks', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(30), { maxTokens: 20 }));
    await engine.settle();
    const all = [...tokens(30), ...engine.tokensOf('a')];
    // 50 tokens, of which the last has no KV: three full blocks.
    expect(engine.core.inspect.lookup(all, null).cachedTokens).toBe(48);
    expect(engine.core.inspect.lookup(all, 'salt').cachedTokens).toBe(0);
    expect(engine.core.inspect.stats().usedBlocks).toBe(0);
    engine.core.inspect.checkIntegrity();
  });

  it('evicts the least recently used blocks, the tail of a chain first', async () => {
    const engine = new TestEngine(engineConfig({ numBlocks: 7 }));
    await served(engine, 'old', tokens(48, 1));
    await served(engine, 'new', tokens(48, 2));
    // Six usable blocks: this takes two, the last two in the chain that was freed first.
    await served(engine, 'third', tokens(32, 3));
    expect(engine.core.inspect.lookup(tokens(48, 1), null).cachedTokens).toBe(16);
    expect(engine.core.inspect.lookup(tokens(48, 2), null).cachedTokens).toBe(48);
  });

  it('reports stored and removed blocks and the reset', async () => {
    const events: CacheEvent[] = [];
    const engine = new TestEngine(engineConfig({ numBlocks: 4 }));
    engine.core.onCacheEvent = (event) => events.push(event);
    await served(engine, 'a', tokens(40, 1));
    await served(engine, 'b', tokens(40, 2));
    expect(engine.core.resetPrefixCache()).toBe(true);
    const kinds = events.map((event) => event.kind);
    expect(kinds).toEqual(['stored', 'removed', 'removed', 'stored', 'cleared']);
    const stored = events[0] as Extract<CacheEvent, { kind: 'stored' }>;
    expect(stored).toMatchObject({ group: 0, parentBlockHash: null, blockSize: 16 });
    expect(stored.tokenIds).toEqual(tokens(32, 1));
    expect(stored.blockHashes).toHaveLength(2);
    // The tail of the chain is evicted first.
    expect(events[1]).toMatchObject({ blockHashes: [stored.blockHashes[1]] });
  });

  it('can be reset only while no block but the null block is in use', async () => {
    const engine = new TestEngine(engineConfig());
    engine.add(request('a', tokens(20), { maxTokens: 3 }));
    await engine.step();
    expect(engine.core.resetPrefixCache()).toBe(false);
    expect(engine.core.inspect.lookup(tokens(20), null).cachedTokens).toBe(16);
    await engine.settle();
    expect(engine.core.resetPrefixCache()).toBe(true);
    expect(engine.core.inspect.lookup(tokens(20), null).cachedTokens).toBe(0);
  });
});
