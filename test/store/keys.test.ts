/** A store's keys: the hash and group that went in come out again. */
import { expect, test } from 'vitest';
import { partsOf, storeKey } from '../../src/store/keys.ts';

test.each(['0123456789abcdef'.repeat(4), 'abcd', 'ab.7', '.123', '....', '\ue4f0.\u0001.'])(
  'hash %j and any group are read back from their key',
  (hash) => {
    for (const group of [0, 1, 12]) expect(partsOf(storeKey(hash, group))).toEqual({ hash, group });
  },
);
