/** The checks of `kvferry verify` that look below the cluster's interface, in Node. */

import { fixtureChecks } from '../lab/verify/fixture.ts';
import { kernelChecks } from '../lab/verify/kernels.ts';
import { pulledBlockChecks } from '../lab/verify/pulled-blocks.ts';
import type { VerifyProviders } from '../lab/verify/types.ts';
import { nodePlatform } from '../platform/node.ts';

export const nodeVerify: VerifyProviders = {
  kernels: kernelChecks(nodePlatform),
  pulledBlocks: pulledBlockChecks(nodePlatform),
  fixture: fixtureChecks(nodePlatform),
};
