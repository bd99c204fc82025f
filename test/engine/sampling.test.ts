import { expect, test } from 'vitest';
import { DEFAULT_SAMPLING, withDefaults } from '../../src/engine/sampling.ts';

test('withDefaults fills in fields that are omitted or undefined (less strict compilers allow undefined)', () => {
  expect(withDefaults(undefined)).toEqual(DEFAULT_SAMPLING);
  const given = Object.fromEntries(Object.keys(DEFAULT_SAMPLING).map((name) => [name, undefined]));
  expect(withDefaults(given)).toStrictEqual(DEFAULT_SAMPLING);
  expect(withDefaults({ temperature: 1, allowedTokenIds: null })).toStrictEqual({
    ...DEFAULT_SAMPLING,
    temperature: 1,
    allowedTokenIds: null,
  });
});
