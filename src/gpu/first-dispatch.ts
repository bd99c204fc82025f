/** A kernel's first dispatch, on buffers of ones: some drivers compile at it, and not when the pipeline is made. */
import type { GpuDevice } from './device.ts';
import { type Kernel, type KernelLibrary, kernels } from './kernels.ts';

/** Enough for any kernel's uniforms, and for what it reads when all of them are 1. */
const SCRATCH_BYTES = 256;
const MOST_BINDINGS = Math.max(...Object.values(kernels).map(({ bindings }) => bindings.length));

/** Submits a dispatch of each, one by one: what one engine has compiled is on a driver's disk before the next begins. */
export function submitFirstDispatches(
  { device }: GpuDevice,
  library: KernelLibrary,
  made: readonly Kernel[],
): void {
  // What one kernel writes no other reads: it could be the bound of a loop.
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
