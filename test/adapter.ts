/**
 * The adapter that tests compute on: KVFERRY_ADAPTER = swiftshader, lavapipe or gpu. Default: SwiftShader, or the GPU where npm
 * installs no SwiftShader.
 */
import { driverAbsence } from '../src/platform/node/drivers.ts';

export const TEST_ADAPTER =
  process.env.KVFERRY_ADAPTER ?? (driverAbsence('swiftshader') === null ? 'swiftshader' : 'gpu');
