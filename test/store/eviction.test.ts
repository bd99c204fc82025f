import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Arc } from '../../src/store/eviction/arc.ts';
import { Lru } from '../../src/store/eviction/lru.ts';
import { AIBRIX, PAPER, S3Fifo } from '../../src/store/eviction/s3fifo.ts';
import type { EvictionDeps, EvictionPolicy } from '../../src/store/eviction/types.ts';
import { ArcReference, LruReference, S3FifoReference } from './reference.ts';

const share = (capacity: number, of: number) => Math.max(1, Math.floor(capacity * of));

const POLICIES: Record<
  string,
  [(deps: EvictionDeps) => EvictionPolicy, (deps: EvictionDeps) => EvictionPolicy]
> = {
  lru: [(deps) => new Lru(deps), (deps) => new LruReference(deps)],
  arc: [(deps) => new Arc(deps), (deps) => new ArcReference(deps)],
  s3fifo: [
    (deps) => new S3Fifo(deps, AIBRIX),
    (deps) =>
      new S3FifoReference(deps, {
        smallRoom: share(deps.capacity, 0.3),
        ghostRoom: deps.capacity,
        promotion: 1,
        over: true,
      }),
  ],
  's3fifo-paper': [
    (deps) => new S3Fifo(deps, PAPER),
    (deps) =>
      new S3FifoReference(deps, {
        smallRoom: share(deps.capacity, 0.1),
        ghostRoom: share(deps.capacity, 0.9),
        promotion: 2,
        over: false,
      }),
  ],
};

const operation = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('ask' as const), key: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('put' as const), key: fc.nat(30) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('follow' as const), key: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('renew' as const), key: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), key: fc.nat(30) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('pin' as const), key: fc.nat(30) }) },
);

describe.each(Object.entries(POLICIES))('%s', (_, [make, makeReference]) => {
  test('behaves like its reference implementation under random operations and keys in use', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(operation, { maxLength: 150, size: 'max' }),
        (capacity, ops) => {
          const pinned = new Set<string>();
          const told: string[][] = [[], []];
          const [policy, reference] = [make, makeReference].map((maker, i) =>
            maker({
              capacity,
              mayGo: (key) => !pinned.has(key),
              onEvicted: (key) => told[i]!.push(`evicted ${key}`),
              onHot: (key) => told[i]!.push(`hot ${key}`),
            }),
          ) as [EvictionPolicy, EvictionPolicy];
          for (const { do: what, key: number } of ops) {
            const key = String(number);
            if (what === 'pin') {
              if (!pinned.delete(key)) pinned.add(key);
            } else if (what === 'remove') for (const one of [policy, reference]) one.remove(key);
            else if (what === 'renew') for (const one of [policy, reference]) one.renew(key);
            else if (what === 'follow') {
              const parent = String((number + 15) % 31);
              expect(policy.put(key, parent)).toBe(reference.put(key, parent));
            } else if (what === 'ask' && policy.has(key))
              for (const one of [policy, reference]) one.touch(key);
            else expect(policy.put(key)).toBe(reference.put(key));
            expect(policy.size).toBeLessThanOrEqual(capacity);
            expect([...policy.keys()]).toEqual([...reference.keys()]);
            expect(told[0]).toEqual(told[1]);
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  test('accepts no key while all are in use, and accepts one afterwards', () => {
    let inUse = true;
    const policy = make({ capacity: 3, mayGo: () => !inUse });
    expect(['a', 'b', 'c'].map((key) => policy.put(key))).toEqual([true, true, true]);
    expect(policy.put('d')).toBe(false);
    expect(policy.has('d')).toBe(false);
    inUse = false;
    expect(policy.put('d')).toBe(true);
    expect(policy.size).toBe(3);
  });
});

describe.each(['lru', 'arc'])('%s, given the order of a text,', (name) => {
  const text = ['a', 'b', 'c', 'd'];
  const putAll = (policy: EvictionPolicy, keys: readonly string[]) =>
    keys.forEach((key, i) => void policy.put(key, keys[i - 1] ?? null));

  test('evicts the last key of the text first', () => {
    const gone: string[] = [];
    const policy = POLICIES[name]![0]({ capacity: 5, onEvicted: (key) => gone.push(key) });
    putAll(policy, text);
    putAll(policy, ['v', 'w', 'x']);
    expect(gone).toEqual(['d', 'c']);
  });

  test('evicts a renewed text after older keys, and its continuation before the text', () => {
    const gone: string[] = [];
    const policy = POLICIES[name]![0]({ capacity: 5, onEvicted: (key) => gone.push(key) });
    putAll(policy, text.slice(0, 2));
    putAll(policy, ['v', 'w']);
    for (const key of ['b', 'a']) policy.renew(key);
    policy.put('c', 'b');
    putAll(policy, ['x', 'y', 'z']);
    expect(gone).toEqual(['w', 'v', 'c']);
  });
});

/** Touches each key in turn, or puts it if it is absent. Returns the remaining keys, sorted. */
function after(policy: EvictionPolicy, asked: string): string {
  for (const key of asked) {
    if (policy.has(key)) policy.touch(key);
    else policy.put(key);
  }
  return [...policy.keys()].toSorted().join('');
}

test('S3-FIFO keeps repeatedly used keys through a scan that makes LRU evict them', () => {
  const asked = 'abababcdefghijklmnop';
  expect(after(new S3Fifo({ capacity: 5 }, AIBRIX), asked)).toContain('ab');
  expect(after(new Lru({ capacity: 5 }), asked)).toBe('lmnop');
});

test("AIBrix's S3-FIFO moves used keys and returning ghosts to main, and evicts others from small", () => {
  const hot: string[] = [];
  const policy = new S3Fifo({ capacity: 4, onHot: (key) => hot.push(key) }, AIBRIX);
  after(policy, 'abcd');
  policy.touch('a');
  expect(hot).toEqual(['a']);
  // a is the oldest and was used, so it moves to main. b is evicted and becomes a ghost.
  policy.put('e');
  expect([...policy.keys()]).toEqual(['c', 'd', 'e', 'a']);
  expect(policy.sizes).toEqual({ small: 3, main: 1, ghost: 1 });
  // A ghost that is put again goes straight to main and is hot.
  policy.put('b');
  expect([...policy.keys()]).toEqual(['d', 'e', 'a', 'b']);
  expect(hot).toEqual(['a', 'b']);
});
