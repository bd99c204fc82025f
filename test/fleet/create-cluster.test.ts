/** Options that createCluster refuses before it looks for an adapter. */
import { expect, test } from 'vitest';
import { createCluster } from '../../src/index.ts';

test('createCluster refuses a cost profile if the pull policy does not use one', async () => {
  await expect(createCluster({ model: 'nano', adapter: 'none', costProfile: 'costs.json' })).rejects.toThrow(
    '--cost-profile is given and --pull-policy is threshold: give --pull-policy cost-aware, or leave the profile out',
  );
});
