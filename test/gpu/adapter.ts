/** The adapter that the GPU tests run on: KVFERRY_ADAPTER = swiftshader (default), lavapipe or gpu. */
import { GpuDevice } from '../../src/gpu/device.ts';
import { type Driver, selectDriver } from '../../src/platform/node/drivers.ts';
import { nodePlatform } from '../../src/platform/node.ts';

const adapterName = process.env.KVFERRY_ADAPTER ?? 'swiftshader';

let selected: Promise<void> | null = null;

export async function openTestDevice(bufferBytes = 0, subgroups = true): Promise<GpuDevice> {
  selected ??= selectDriver((adapterName === 'gpu' ? 'system' : adapterName) as Driver);
  await selected;
  return GpuDevice.open(await nodePlatform.createGpu(), { bufferBytes, subgroups });
}

export const readShader = nodePlatform.readShader;
