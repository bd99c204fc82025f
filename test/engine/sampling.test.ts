import { expect, test } from 'vitest';
import { DEFAULT_SAMPLING, withDefaults } from '../../src/engine/sampling.ts';

test('what is left out has its default, and what is undefined too: compilers that are less strict let it pass', () => {
  expect(withDefaults(undefined)).toEqual(DEFAULT_SAMPLING);
  const given = Object.fromEntries(Object.keys(DEFAULT_SAMPLING).map((name) => [name, undefined]));
  expect(withDefaults(given)).toStrictEqual(DEFAULT_SAMPLING);
  expect(withDefaults({ temperature: 1, allowedTokenIds: null })).toStrictEqual({
    ...DEFAULT_SAMPLING,
    temperature: 1,
    allowedTokenIds: null,
  });
});
