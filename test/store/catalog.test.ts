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
  test('returns the slot of a key once its block has arrived, and counts lookups and hits', () => {
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

  test.each(EVICTIONS)('takes no memory for slots that were never used, with %s', (eviction) => {
    // More than an array can have.
    const catalog = new BlockCatalog({ slots: 2 ** 40, eviction });
    stored(catalog, 'a', 'b');
    catalog.clear();
    stored(catalog, 'c', 'd', 'e');
    expect(['c', 'd', 'e'].map((key) => catalog.slotOf(key)).toSorted()).toEqual([0, 1, 2]);
    catalog.checkIntegrity();
  });

  test('reuses the slot of a block that did not arrive', () => {
    const catalog = new BlockCatalog({ slots: 1, eviction: 'lru' });
    catalog.prepareStore('a');
    catalog.completeStore('a', false);
    expect(catalog.state('a')).toBe('absent');
    expect(catalog.prepareStore('b')).toBe(0);
  });

  test('does not evict blocks that are being loaded, and refuses a new one if all of them are', () => {
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

  test.each(EVICTIONS)(
    'with %s does not evict the beginning of a text to store its continuation',
    (eviction) => {
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
    },
  );

  test('reports a block that returns soon after its eviction as hot, once its bytes have arrived', () => {
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
    'with %s reports a block that is loaded repeatedly as hot once, and one that is not never',
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

  test.each(EVICTIONS)('with %s finds as much after it was cleared as one that is new', (eviction) => {
    const catalog = new BlockCatalog({ slots: 4, eviction });
    const hits = () =>
      [...'abacadebfghabaiebfcgdheabgcah'].filter((key) => {
        const isHit = catalog.state(key) === 'ready';
        if (isHit) {
          catalog.prepareLoad([key]);
          catalog.completeLoad([key]);
        } else stored(catalog, key);
        return isHit;
      }).length;
    const first = hits();
    catalog.clear();
    expect(catalog.size).toBe(0);
    expect(hits()).toBe(first);
  });

  test.each(EVICTIONS)('with %s keeps what is in use when it is cleared', (eviction) => {
    const catalog = new BlockCatalog({ slots: 3, eviction });
    stored(catalog, 'a', 'b', 'c', 'd');
    const inUse = [...catalog.ready()].at(-1)![0];
    catalog.prepareLoad([inUse]);
    catalog.clear();
    catalog.checkIntegrity();
    expect([...catalog.ready()].map(([key]) => key)).toEqual([inUse]);
    catalog.completeLoad([inUse]);
    stored(catalog, 'x', 'y', 'z');
    catalog.checkIntegrity();
    expect(catalog.size).toBe(3);
  });

  test('reports an eviction with its key and slot', () => {
    const evicted: [string, number][] = [];
    const catalog = new BlockCatalog({
      slots: 1,
      eviction: 'lru',
      onEvicted: (key, slot) => evicted.push([key, slot]),
    });
    stored(catalog, 'a', 'b');
    expect(evicted).toEqual([['a', 0]]);
  });

  test.each(EVICTIONS)(
    'with %s keeps its slots consistent under random stores, failures and loads',
    (eviction) => {
      const act = fc.record({
        do: fc.constantFrom('store', 'come', 'fail', 'load', 'loaded'),
        key: fc.nat(12),
      });
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 8 }),
          fc.array(act, { maxLength: 200, size: 'max' }),
          (slots, acts) => {
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
          },
        ),
        { numRuns: 100 },
      );
    },
  );
});
