/**
 * First dispatches of kernels, on buffers filled with ones. Some drivers compile at the first dispatch instead of when
 * the pipeline is created.
 */
import type { GpuDevice } from './device.ts';
import { type Kernel, type KernelLibrary, kernels } from './kernels.ts';

/** Bytes of each buffer: enough for any kernel's uniforms, and for what a kernel reads when all its uniforms are 1. */
const SCRATCH_BYTES = 256;
const MOST_BINDINGS = Math.max(...Object.values(kernels).map(({ bindings }) => bindings.length));

/**
 * Submits one dispatch of each kernel, one submit each. A kernel that one engine has compiled is then in the driver's
 * disk cache before another engine reaches it.
 */
export function submitFirstDispatches(
  { device }: GpuDevice,
  library: KernelLibrary,
  made: readonly Kernel[],
): void {
  // No kernel reads what another wrote: the value could be a loop bound.
  const [read, written] = ['read', 'written'].map((what) =>
    Array.from({ length: MOST_BINDINGS }, (_, i) => onesBuffer(device, `compile ${what} ${i}`)),
  ) as [GPUBuffer[], GPUBuffer[]];
  for (const kernel of made) {
    const buffers = kernels[kernel.name].bindings.map((kind, i) => (kind === 'write' ? written : read)[i]!);
    const bindGroup = library.bind(kernel, 'compile', buffers);
    const encoder = device.createCommandEncoder({ label: 'compile' });
    const pass = encoder.beginComputePass({ label: 'compile' });
    library.encode(pass, { kernel, bindGroup, x: 1, y: 1 });
    pass.end();
    device.queue.submit([encoder.finish()]);
  }
  for (const buffer of [...read, ...written]) buffer.destroy();
}

function onesBuffer(device: GPUDevice, label: string): GPUBuffer {
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.UNIFORM;
  const buffer = device.createBuffer({ label, size: SCRATCH_BYTES, usage, mappedAtCreation: true });
  new Uint32Array(buffer.getMappedRange()).fill(1);
  buffer.unmap();
  return buffer;
}
