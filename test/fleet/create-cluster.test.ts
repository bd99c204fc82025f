/** Options that createCluster refuses before it looks for an adapter. */
import { expect, test } from 'vitest';
import * as library from '../../src/index.ts';

const { createCluster } = library;

test('createCluster refuses a cost profile if the pull policy does not use one', async () => {
  await expect(createCluster({ model: 'nano', adapter: 'none', costProfile: 'costs.json' })).rejects.toThrow(
    "'costProfile' is given and 'pullPolicy' is threshold: give 'pullPolicy' cost-aware, or leave the profile out",
  );
});

test('the library exports createCluster and the error classes, nothing internal', () => {
  const { createCluster: _, ...rest } = library;
  expect(Object.keys(rest).filter((name) => !/^[A-Z]\w+Error$/.test(name))).toEqual([]);
});
