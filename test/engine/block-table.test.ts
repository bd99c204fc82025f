import fc from 'fast-check';
import { expect, it } from 'vitest';
import { byGroup } from '../../src/engine/block-table.ts';

it('byGroup returns what map() returns', () => {
  fc.assert(
    fc.property(fc.array(fc.array(fc.nat(9)), { maxLength: 4 }), (groups) => {
      const of = (ids: readonly number[], group: number) => ids.map((id) => 10 * id + group);
      expect(byGroup(groups, of)).toEqual(groups.map(of));
    }),
  );
});
