import { describe, expect, it } from 'vitest';
import type { KvCacheSpec } from '../../src/config/engine.ts';
import { createBlockHasher } from '../../src/engine/block-hash.ts';
import type { CacheEvent } from '../../src/engine/cache-event.ts';
import { KvCacheManager } from '../../src/engine/kv-cache-manager.ts';
import { mostBlocks } from '../../src/engine/kv-cache-spec.ts';
import { longestHit } from '../../src/engine/prefix-lookup.ts';
import { Request } from '../../src/engine/request.ts';
import { engineConfig, request, type Sizes, TestEngine, tokens } from './fakes.ts';

const full: KvCacheSpec = { kind: 'full' };
const sliding = (window: number): KvCacheSpec => ({ kind: 'sliding', window });

function manager(sizes: Sizes) {
  const config = engineConfig(sizes);
  const hasher = createBlockHasher('seed');
  const cache = new KvCacheManager({ config: config.cache, scheduler: config.scheduler, hasher });
  const make = (id: string, length: number, seed = 0) =>
    new Request(request(id, tokens(length, seed)), 0, { hasher, blockSize: config.cache.blockSize });
  /** Computes the whole prompt in chunks, as the scheduler would. */
  const compute = (one: Request, chunk: number) => {
    while (one.numComputedTokens < one.numTokens) {
      const count = Math.min(chunk, one.numTokens - one.numComputedTokens);
      if (!cache.allocateSlots(one, one.numComputedTokens, count)) return false;
      one.advance(count);
    }
    return true;
  };
  return { cache, make, compute };
}

const kept = (ids: readonly number[]) => ids.filter((id) => id !== 0).length;

describe('a sliding-window group', () => {
  it("keeps 2 blocks, and a full group 7, in vLLM's documented case: 112 tokens, window 32", () => {
    const { cache, make, compute } = manager({ groups: [full, sliding(32), sliding(32)] });
    const one = make('a', 112);
    expect(compute(one, 16)).toBe(true);
    one.appendOutput(1);
    expect(cache.allocateSlots(one, 112, 0)).toBe(true);
    expect(cache.blockIds(one).map(kept)).toEqual([7, 2, 2]);
    expect(cache.numUsable - cache.numFree).toBe(11);
    // Tables are positional: a freed block leaves the null block in its place.
    expect(cache.blockIds(one)[1]).toEqual([0, 0, 0, 0, 0, expect.any(Number), expect.any(Number)]);
    cache.checkIntegrity();
  });

  it('appends passed blocks to the free queue, where they can be hit until they are reallocated', () => {
    const { cache, make, compute } = manager({ blockSize: 4, numBlocks: 9, groups: [sliding(4)] });
    const one = make('a', 17);
    compute(one, 4);
    const [, , , fourth, fifth] = cache.blockIds(one)[0]!;
    expect(cache.blockIds(one)[0]).toEqual([0, 0, 0, fourth, fifth]);
    expect(cache.lookupPrefix(tokens(8), null)).toMatchObject({ numTokens: 8, blockIds: [[0, 2]] });
    // Blocks that were never used are allocated first, then the sequence's first block.
    const other = make('b', 16, 1);
    expect(cache.allocateSlots(other, 0, 16)).toBe(true);
    expect(cache.blockIds(other)[0]).toEqual([6, 7, 8, 1]);
    expect(cache.lookupPrefix(tokens(4), null).numTokens).toBe(0);
    expect(cache.lookupPrefix(tokens(8), null).numTokens).toBe(8);
    cache.checkIntegrity();
  });

  it('takes only the blocks that the next computed token sees if all other KV is loaded', () => {
    const { cache, make } = manager({ blockSize: 4, groups: [sliding(5)] });
    const one = make('a', 12);
    // All KV is loaded, and position 11 is computed again. It sees 7 to 11, so the block of 4 to 7 is needed too.
    expect(cache.allocateSlots(one, 12, 0, null, true)).toBe(true);
    expect(cache.blockIds(one)[0]!.map((id) => id !== 0)).toEqual([false, true, true]);
    const longer = make('b', 13);
    expect(cache.allocateSlots(longer, 12, 0, null, true)).toBe(true);
    expect(cache.blockIds(longer)[0]!.map((id) => id !== 0)).toEqual([false, false, true]);
  });

  it('never takes more blocks than mostBlocks() allows, whatever the chunk size', () => {
    const groups = [full, sliding(20), sliding(5)];
    for (const chunk of [1, 7, 16, 40]) {
      const sizes = { blockSize: 4, groups, maxNumBatchedTokens: chunk };
      const { cache, make } = manager({ ...sizes, numBlocks: 200 });
      const most = mostBlocks(100, engineConfig(sizes));
      const one = make('a', 100);
      while (one.numComputedTokens < 100) {
        const count = Math.min(chunk, 100 - one.numComputedTokens);
        cache.allocateSlots(one, one.numComputedTokens, count);
        one.advance(count);
        cache.blockIds(one).forEach((ids, group) => {
          expect(kept(ids)).toBeLessThanOrEqual(most[group]!);
        });
      }
    }
    // ceil(min(W - 1 + batch, length) / block) + 1.
    expect(mostBlocks(1000, engineConfig({ groups, maxNumBatchedTokens: 16 }))).toEqual([63, 4, 3]);
  });

  it('needs at most mostBlocks(), less the blocks that it has, of which a hit counts if it is free now', () => {
    const sizes = { blockSize: 4, groups: [full, sliding(5)], maxNumBatchedTokens: 8 };
    const { cache, make, compute } = manager(sizes);
    expect(mostBlocks(100, engineConfig(sizes))).toEqual([25, 4]);
    const one = make('a', 100);
    expect(cache.maxBlocksNeeded(one, cache.getComputedBlocks(one), 0)).toBe(25 + 4);
    const start = make('start', 40);
    compute(start, 8);
    // The token at 40 sees 36 to 39: of the windowed group, the hit is one block.
    const hit = cache.getComputedBlocks(one);
    expect(hit.numTokens).toBe(40);
    expect(cache.maxBlocksNeeded(one, hit, 40)).toBe(15 + 3);
    cache.free(start);
    expect(cache.maxBlocksNeeded(one, hit, 40)).toBe(15 + 10 + (3 + 1));
    expect(cache.allocateSlots(one, 40, 8, hit)).toBe(true);
    expect(cache.maxBlocksNeeded(one, null, 48)).toBe(13 + 3);
  });

  it('keeps the last ceil(W / block) + 1 blocks of an ended request for its reader', () => {
    const { cache, make, compute } = manager({
      blockSize: 64,
      numBlocks: 300,
      groups: [full, sliding(1024)],
    });
    const one = make('a', 4000);
    compute(one, 2048);
    cache.keepForReader(one);
    expect(cache.blockIds(one).map(kept)).toEqual([63, 17]);
    cache.checkIntegrity();
  });
});

describe('a prefix hit', () => {
  /** Cached blocks by group, as indexes. */
  const hit = (groups: KvCacheSpec[], cached: number[][], blocks: number) =>
    longestHit(
      groups,
      // One more hash than the number of blocks asked for.
      Array.from({ length: blocks + 1 }, (_, i) => `${i}`),
      blocks,
      4,
      (hash, group) => (cached[group]!.includes(Number(hash)) ? 100 * group + Number(hash) + 1 : null),
    ).map((ids) => ids.map((id) => (id === 0 ? null : (id - 1) % 100)));

  it('in a full group ends at the first missing block', () => {
    expect(hit([full], [[0, 1, 3]], 5)).toEqual([[0, 1]]);
  });

  it('in a sliding-window group is the rightmost run that is long enough for the window', () => {
    // ceil((9 - 1) / 4) = 2 blocks.
    expect(hit([sliding(9)], [[0, 2, 3, 5]], 6)).toEqual([[null, null, 2, 3]]);
    expect(hit([sliding(10)], [[0, 2, 3, 5]], 6)).toEqual([[0]]);
    expect(hit([sliding(10)], [[2, 3]], 6)).toEqual([[]]);
    expect(hit([sliding(9)], [[4]], 5)).toEqual([[]]);
    expect(hit([sliding(1)], [[2]], 5)).toEqual([[null, null, 2]]);
  });

  it('ends where all groups agree, in any order of the groups', () => {
    const all = [0, 1, 2, 3, 4, 5];
    expect(hit([sliding(5), full], [[1, 3], all], 6)).toEqual([
      [null, null, null, 3],
      [0, 1, 2, 3],
    ]);
    // The longer window shortens what the shorter one found first.
    expect(hit([full, sliding(5), sliding(9)], [all, [1, 2, 3, 5], [0, 1, 4, 5]], 6)).toEqual(
      [[0, 1, 2, 3, 4, 5], [5], [4, 5]].map((ids) => [...new Array(6 - ids.length).fill(null), ...ids]),
    );
    expect(hit([full, sliding(5), sliding(9)], [all, [1, 2, 3], [0, 1, 4, 5]], 6)).toEqual([
      [0, 1],
      [null, 1],
      [0, 1],
    ]);
    // Where the longer window ends the hit, the shorter one must have its block too.
    expect(hit([full, sliding(5), sliding(9)], [all, [3], [0, 1]], 6)).toEqual([[], [], []]);
    expect(hit([full, sliding(5)], [[0, 1, 2], [4]], 6)).toEqual([[], []]);
  });

  it('with two groups of the same kind needs each block in both', () => {
    expect(
      hit(
        [sliding(5), sliding(5)],
        [
          [1, 3],
          [1, 2],
        ],
        5,
      ),
    ).toEqual([
      [null, 1],
      [null, 1],
    ]);
  });

  it('is claimed in every group before any group allocates, so none evicts another’s hit', () => {
    const groups = [full, sliding(4)];
    const { cache, make, compute } = manager({ blockSize: 4, numBlocks: 9, groups });
    const first = make('a', 9);
    compute(first, 9);
    cache.free(first);
    // 6 of the 8 blocks were used, and all are free. Once two others are allocated, the hits are next in the queue.
    const second = make('b', 14);
    const found = cache.getComputedBlocks(second);
    expect(found.numTokens).toBe(8);
    expect(cache.allocateSlots(second, 8, 6, found)).toBe(true);
    const [whole, window] = cache.blockIds(second);
    expect(whole!.slice(0, 2)).toEqual(found.blockIds[0]);
    expect(window![1]).toBe(found.blockIds[1]![1]);
    expect(new Set([...whole!, ...window!.slice(1)]).size).toBe(4 + 3);
    cache.checkIntegrity();
  });
});

describe('an engine with groups', () => {
  const groups = [sliding(6), full, sliding(6)];

  it('serves a prompt that would not fit if every group kept everything, and refuses one that never fits', async () => {
    const sizes = { blockSize: 4, numBlocks: 36, groups, maxNumBatchedTokens: 8, maxModelLen: 200 };
    const engine = new TestEngine(engineConfig(sizes));
    engine.add(request('a', tokens(80), { maxTokens: 4 }));
    await engine.settle();
    expect(engine.finishOf('a')?.reason).toBe('length');
    expect(engine.core.inspect.stats().preemptions).toBe(0);
    // 21 blocks, and ceil((6 - 1 + 8) / 4) + 1 = 5 in each windowed group.
    expect(() => engine.add(request('b', tokens(100), { maxTokens: 4 }))).toThrow(
      'need 36 blocks of 4 tokens in 3 KV cache groups, the pool of engine has 35',
    );
  });

  it('reports the stored blocks of each group', async () => {
    const events: CacheEvent[] = [];
    const engine = new TestEngine(engineConfig({ blockSize: 4, groups, maxNumBatchedTokens: 64 }));
    engine.core.onCacheEvent = (event) => events.push(event);
    engine.add(request('a', tokens(30), { maxTokens: 1 }));
    await engine.settle();
    expect(
      events.map((event) => (event.kind === 'stored' ? [event.group, event.blockHashes.length] : [])),
    ).toEqual([0, 1, 2].map((group) => [group, 7]));
    expect(engine.core.inspect.lookup(tokens(30), null)).toMatchObject({ cachedTokens: 28, hitTokens: 28 });
  });

  it('shows every block with its group', async () => {
    const engine = new TestEngine(engineConfig({ blockSize: 4, groups, maxNumBatchedTokens: 8 }));
    engine.add(request('a', tokens(30), { maxTokens: 5 }));
    for (let i = 0; i < 5; i++) await engine.step();
    const facts = engine.core.inspect.blocks();
    const running = facts.filter(({ use }) => use === 'running');
    expect(running.map(({ group }) => group!).toSorted((a, b) => a - b)).toEqual([
      ...[0, 0],
      ...new Array(8).fill(1),
      ...[2, 2],
    ]);
    expect(facts.filter(({ use }) => use === 'left').length).toBeGreaterThan(0);
  });

  it('generates the same tokens as an engine whose groups are all full', async () => {
    const serve = async (specs: readonly KvCacheSpec[]) => {
      const engine = new TestEngine(engineConfig({ blockSize: 4, groups: specs, maxNumBatchedTokens: 16 }));
      for (const [id, length] of [
        ['a', 50],
        ['b', 70],
        ['c', 52],
      ] as const) {
        engine.add(request(id, tokens(length), { maxTokens: 20 }));
        await engine.settle();
      }
      return {
        tokens: ['a', 'b', 'c'].map((id) => engine.tokensOf(id)),
        prompts: ['b', 'c'].map((id) => engine.promptOf(id)!.localHitTokens),
      };
    };
    const windowed = await serve(groups);
    expect(windowed.tokens).toEqual((await serve(groups.map(() => full))).tokens);
    // 'b' hits the prefix up to the end of the prompt of 'a', 'c' the same again: those windows were freed, not overwritten.
    expect(windowed.prompts).toEqual([48, 48]);
  });
});
