/** Opens a device for kernels. */
import { type DeviceNeeds, GpuDevice } from '../gpu/device.ts';
import type { Platform } from '../platform/types.ts';

/**
 * `instance`: what the platform's createGpu() gave. With a software adapter this thread then sleeps between polls, which
 * would take the processor from the adapter. Throws what GpuDevice.open throws.
 */
export async function openDevice(
  platform: Pick<Platform, 'backend' | 'easePolling' | 'polls'>,
  instance: GPU,
  needs: DeviceNeeds,
): Promise<GpuDevice> {
  const gpu = await GpuDevice.open(instance, needs, platform.backend, platform.polls?.());
  if (gpu.report.software) platform.easePolling();
  return gpu;
}
