/** What is written to lower tiers at the end, when blocks are still wanted meanwhile. */
import { expect, it } from 'vitest';
import { BlockCatalog } from '../../src/store/catalog.ts';
import { LowerTiers, type Tier } from '../../src/store/lower-tiers.ts';
import { settled, TestClock } from '../clock.ts';

it('a lookup that is still under way while memory is written takes no room from its blocks', async () => {
  const written = new Map<string, number>();
  const memory = [1, 2, 3].map((byte) => Uint8Array.of(byte));
  /** Takes one block at a time. */
  const tier: Tier = {
    isFull: true,
    keys: () => written.keys(),
    find: async () => new Set(),
    read: async () => false,
    write: (key, [part]) => void written.set(key, part![0]!),
    flush: settled,
  };
  const bytes = { parts: (slot: number) => [memory[slot]!] };
  const lower = new LowerTiers([{ tier, ingestion: 'EVICTED' }], bytes, new TestClock());
  const catalog = new BlockCatalog({ slots: 3, eviction: 'lru' });
  const keys = ['a', 'b', 'c'].map((digit) => digit.repeat(64));
  for (const key of keys) {
    catalog.prepareStore(key);
    catalog.completeStore(key, true);
  }
  const wanted = new Map(keys.map((key) => [key, memory[catalog.slotOf(key)!]![0]!]));
  const writing = lower.writeRest(catalog);
  for (const digit of ['d', 'e']) {
    const slot = catalog.prepareStore(digit.repeat(64));
    if (slot !== null) memory[slot]!.fill(99);
  }
  await writing;
  expect(written).toEqual(wanted);
  expect(catalog.inUse).toBe(0);
  expect(catalog.prepareStore('f'.repeat(64))).not.toBeNull();
});
