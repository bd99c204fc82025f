/** Whether loading from a tier pays, judged by how long its reads took. */
import { expect, it } from 'vitest';
import { ArenaMemory } from '../../src/store/arena.ts';
import { LowerTiers, type Tier } from '../../src/store/lower-tiers.ts';
import { TestClock } from '../clock.ts';

const HASHES = Array.from({ length: 8 }, (_, i) => `${i}`);

/** A tier that has every block and takes tierMs() for each read. */
function lowerWith(clock: TestClock, tierMs: () => number) {
  const tier: Tier = {
    isFull: false,
    keys: () => [],
    find: async (hashes) => new Set(hashes),
    async read() {
      await null;
      clock.advance(tierMs());
      return true;
    },
    write() {},
    flush: async () => {},
  };
  const memory = new ArenaMemory(8, [16]);
  return new LowerTiers([{ tier, ingestion: 'ALL' }], memory, clock);
}

/** The number of blocks that a lookup loads. */
async function raised(lower: LowerTiers, blocks: number, worthMs: number | null): Promise<number> {
  const wanted = HASHES.slice(0, blocks);
  const raising = await lower.look(wanted, worthMs);
  const came = await Promise.all(wanted.map((hash, slot) => raising.load(hash, slot)));
  expect(wanted.map((hash) => raising.has(hash))).toEqual(came);
  return came.filter(Boolean).length;
}

it('blocks that cost more to load than they save are not loaded, once both times are known', async () => {
  const clock = new TestClock();
  const lower = lowerWith(clock, () => 4);
  expect(await raised(lower, 8, 1)).toBe(8);
  for (const blocks of [2, 8, 4]) expect(await raised(lower, blocks, null)).toBe(blocks);
  expect(await raised(lower, 8, 3)).toBe(0);
  expect(await raised(lower, 8, 5)).toBe(8);
  expect(await raised(lower, 8, null)).toBe(8);
});

it('a tier that was slow is tried again in one lookup of twenty, and used again once it is fast', async () => {
  const clock = new TestClock();
  let ms = 100;
  const lower = lowerWith(clock, () => ms);
  await raised(lower, 4, null);
  ms = 1;
  const came: number[] = [];
  for (let i = 0; i < 200; i++) came.push(await raised(lower, 4, 10));
  expect(came.slice(0, 19)).toEqual(Array(19).fill(0));
  expect(came.slice(-50)).toEqual(Array(50).fill(4));
});
