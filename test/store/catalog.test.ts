import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EVICTIONS } from '../../src/config/store.ts';
import { BlockCatalog } from '../../src/store/catalog.ts';

const stored = (catalog: BlockCatalog, ...keys: string[]) => {
  for (const key of keys) {
    catalog.prepareStore(key);
    catalog.completeStore(key, true);
  }
};

describe('a catalog of blocks', () => {
  test('tells where a key is once it has come, and counts what was asked for and found', () => {
    const catalog = new BlockCatalog({ slots: 8, eviction: 'lru' });
    stored(catalog, 'a', 'b', 'd');
    catalog.prepareStore('c');
    expect(['a', 'b', 'c', 'x'].map((key) => catalog.slotOf(key))).toEqual([0, 1, null, null]);
    catalog.countLookup(4, 2);
    expect(catalog.state('c')).toBe('coming');
    catalog.completeStore('c', true);
    expect(catalog.slotOf('c')).toBe(3);
    catalog.countLookup(4, 4);
    expect(catalog.counters).toMatchObject({ lookups: 8, hits: 6, stored: 4 });
  });

  test('what does not come leaves its slot to others', () => {
    const catalog = new BlockCatalog({ slots: 1, eviction: 'lru' });
    catalog.prepareStore('a');
    catalog.completeStore('a', false);
    expect(catalog.state('a')).toBe('absent');
    expect(catalog.prepareStore('b')).toBe(0);
  });

  test('keeps what is being loaded, whatever comes', () => {
    const catalog = new BlockCatalog({ slots: 2, eviction: 'lru' });
    stored(catalog, 'a', 'b');
    expect(catalog.prepareLoad(['a'])).toEqual([0]);
    stored(catalog, 'c');
    expect(catalog.slotOf('a')).toBe(0);
    expect(catalog.state('b')).toBe('absent');
    catalog.prepareLoad(['c']);
    expect(catalog.prepareStore('d')).toBeNull();
    expect(catalog.counters.refused).toBe(1);
    catalog.completeLoad(['a', 'c']);
    expect(catalog.prepareStore('d')).not.toBeNull();
  });

  test.each(EVICTIONS)('%s: a text that goes on does not take the room of its own beginning', (eviction) => {
    const catalog = new BlockCatalog({ slots: 3, eviction });
    const follows = (key: string, parent: string) => {
      const kept = catalog.keepText(parent);
      const slot = catalog.prepareStore(key, parent);
      if (slot !== null) catalog.completeStore(key, true);
      catalog.completeLoad(kept);
      return slot !== null;
    };
    stored(catalog, 'a', 'x');
    expect(['b', 'c', 'd'].map((key, i) => follows(key, 'abc'[i]!))).toEqual([true, true, false]);
    expect(['a', 'b', 'c', 'd', 'x'].filter((key) => catalog.state(key) === 'ready')).toEqual([
      'a',
      'b',
      'c',
    ]);
    expect(catalog.inUse).toBe(0);
  });

  test('a block that comes again soon after it left is told as hot once its bytes are there', () => {
    const hot: [string, number][] = [];
    const catalog = new BlockCatalog({
      ...{ slots: 2, eviction: 's3fifo' },
      onHot: (key, slot) => hot.push([key, slot]),
    });
    stored(catalog, 'a', 'b', 'c');
    expect(catalog.state('a')).toBe('absent');
    const slot = catalog.prepareStore('a')!;
    expect(hot).toEqual([]);
    catalog.completeStore('a', true);
    expect(hot).toEqual([['a', slot]]);
  });

  test.each(EVICTIONS)(
    '%s: a block that is used again is told as hot, once, and one that is not never is',
    (eviction) => {
      const hot: [string, number][] = [];
      const catalog = new BlockCatalog({ slots: 4, eviction, onHot: (key, slot) => hot.push([key, slot]) });
      stored(catalog, 'a', 'b');
      const slots = [0, 1, 2].flatMap(() => {
        const loaded = catalog.prepareLoad(['a']);
        catalog.completeLoad(['a']);
        catalog.completeLoad(catalog.keepText('b'));
        return loaded;
      });
      expect(hot).toEqual([['a', slots[0]]]);
    },
  );

  test('tells of an eviction while the bytes are still there', () => {
    const evicted: [string, number][] = [];
    const catalog = new BlockCatalog({
      slots: 1,
      eviction: 'lru',
      onEvicted: (key, slot) => evicted.push([key, slot]),
    });
    stored(catalog, 'a', 'b');
    expect(evicted).toEqual([['a', 0]]);
  });

  test.each(EVICTIONS)('%s: slots add up, whatever happens', (eviction) => {
    const act = fc.record({
      do: fc.constantFrom('store', 'come', 'fail', 'load', 'loaded'),
      key: fc.nat(12),
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(act, { maxLength: 200 }), (slots, acts) => {
        const catalog = new BlockCatalog({ slots, eviction });
        const loading: string[] = [];
        const coming = new Map<number, string>();
        for (const { do: what, key: number } of acts) {
          const key = String(number);
          const state = catalog.state(key);
          if (what === 'store' && state === 'absent') {
            const slot = catalog.prepareStore(key);
            expect(coming.has(slot ?? -1)).toBe(false);
            if (slot !== null) coming.set(slot, key);
          } else if ((what === 'come' || what === 'fail') && state === 'coming') {
            catalog.completeStore(key, what === 'come');
            for (const [slot, one] of coming) if (one === key) coming.delete(slot);
          } else if (what === 'load' && state === 'ready') {
            catalog.prepareLoad([key]);
            loading.push(key);
          } else if (what === 'loaded' && loading.length > 0) catalog.completeLoad([loading.pop()!]);
          catalog.checkIntegrity();
          for (const one of loading) expect(catalog.state(one)).toBe('ready');
        }
      }),
      { numRuns: 100 },
    );
  });
});
