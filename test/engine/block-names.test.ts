import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { BlockNames } from '../../src/engine/block-names.ts';

const BLOCKS = 9;

describe('BlockNames', () => {
  it('finds the same block as a list in naming order does, after any additions and removals', () => {
    // Few names, so that several blocks share one; the 30 long names make names share one of the 32 buckets. Two long ones
    // differ only before the characters that choose the bucket. Names of four characters are stored as two words: 'four'
    // shares its first word and its bucket with 'fouR', its second word with 'spur'; one has no printable character.
    const often = ['a', 'four', 'fouR', 'spur', 'one same end', 'two same end'];
    const names = [...often, 'b', 'c', 'fore', '\uffff\u8000\0\uffff'];
    names.push(...Array.from({ length: 30 }, (_, i) => `long name ${i}`));
    const operation = fc.record({
      id: fc.integer({ min: 1, max: BLOCKS - 1 }),
      name: fc.oneof(fc.constantFrom(...often), fc.constantFrom(...names)),
      group: fc.nat(1),
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 80, size: 'max' }), (operations) => {
        const table = new BlockNames(BLOCKS);
        let model: { id: number; name: string; group: number }[] = [];
        for (const { id, name, group } of operations) {
          const has = model.find((each) => each.id === id);
          if (!has) {
            table.add(id, name, group);
            model.push({ id, name, group });
          } else {
            model = model.filter((each) => each !== has);
            const others = model.some((each) => each.name === has.name && each.group === has.group);
            expect(table.remove(id)).toBe(!others);
          }
          table.checkIntegrity();
          for (let block = 1; block < BLOCKS; block++) {
            const named = model.find((each) => each.id === block);
            expect([table.has(block), table.hashOf(block)]).toEqual([
              named !== undefined,
              named?.name ?? null,
            ]);
            if (named) expect(table.groupOf(block)).toBe(named.group);
          }
          for (const asked of names)
            for (const of of [0, 1]) {
              const first = model.find((each) => each.name === asked && each.group === of);
              expect(table.get(asked, of)).toBe(first?.id ?? null);
            }
        }
      }),
      { numRuns: 40 },
    );
  });

  it('forgets all names on clear(), and can then name blocks again', () => {
    const table = new BlockNames(BLOCKS);
    table.add(3, 'a', 0);
    table.add(4, 'a', 0);
    table.clear();
    expect([table.get('a', 0), table.hashOf(3)]).toEqual([null, null]);
    table.add(4, 'a', 0);
    expect(table.get('a', 0)).toBe(4);
    table.checkIntegrity();
  });
});
