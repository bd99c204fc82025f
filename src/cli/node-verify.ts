/** The checks of `kvferry verify` that look below the cluster's interface, in Node. */
import { nodePlatform } from '../platform/node.ts';
import { fixtureChecks } from './verify/fixture.ts';
import { kernelChecks } from './verify/kernels.ts';
import { pulledBlockChecks } from './verify/pulled-blocks.ts';
import type { VerifyProviders } from './verify/types.ts';

export const nodeVerify: VerifyProviders = {
  kernels: kernelChecks(nodePlatform),
  pulledBlocks: pulledBlockChecks(nodePlatform),
  fixture: fixtureChecks(nodePlatform),
};
