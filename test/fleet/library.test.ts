/** What createCluster refuses before it looks for an adapter. */
import { expect, test } from 'vitest';
import { createCluster } from '../../src/index.ts';

test('a cost profile that nothing would use', async () => {
  await expect(createCluster({ model: 'nano', adapter: 'none', costProfile: 'costs.json' })).rejects.toThrow(
    '--cost-profile is given and --pull-policy is threshold: give --pull-policy cost-aware, or leave the profile out',
  );
});
