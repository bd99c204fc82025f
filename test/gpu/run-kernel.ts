/** Runs one kernel on plain arrays. */
import type { GpuDevice } from '../../src/gpu/device.ts';
import { KernelLibrary, type KernelName, kernels, type Overrides } from '../../src/gpu/kernels.ts';
import { readShader } from './adapter.ts';

export type Input = Float32Array | Uint32Array | Uint16Array | ArrayBuffer;

/** Bindings in order; an array for each, also for what is written. Returns what the written ones hold afterwards. */
export async function runKernel(
  gpu: GpuDevice,
  name: KernelName,
  overrides: Overrides,
  inputs: readonly Input[],
  [x, y]: readonly [number, number],
): Promise<ArrayBuffer[]> {
  const { device } = gpu;
  const library = libraryOf(gpu);
  const kernel = await library.get(name, overrides);
  const kinds = kernels[name].bindings;
  const buffers = inputs.map((input, i) => {
    const bytes =
      input instanceof ArrayBuffer
        ? new Uint8Array(input)
        : new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    const buffer = device.createBuffer({
      size: Math.max(16, (bytes.byteLength + 15) & ~15),
      usage:
        (kinds[i] === 'uniform' ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE) |
        GPUBufferUsage.COPY_DST |
        GPUBufferUsage.COPY_SRC,
      mappedAtCreation: true,
    });
    new Uint8Array(buffer.getMappedRange()).set(bytes);
    buffer.unmap();
    return buffer;
  });
  const bindGroup = library.bind(kernel, 'test', buffers);
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  library.encode(pass, { kernel, bindGroup, x, y });
  pass.end();
  const outputs = buffers.filter((_, i) => kinds[i] === 'write');
  const readbacks = outputs.map((buffer) => {
    const readback = device.createBuffer({
      size: buffer.size,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
    encoder.copyBufferToBuffer(buffer, 0, readback, 0, buffer.size);
    return readback;
  });
  await gpu.run([encoder.finish()]);
  const results: ArrayBuffer[] = [];
  for (const readback of readbacks) {
    await gpu.guard(readback.mapAsync(GPUMapMode.READ));
    results.push(readback.getMappedRange().slice(0));
    readback.destroy();
  }
  for (const buffer of buffers) buffer.destroy();
  return results;
}

const libraries = new WeakMap<GpuDevice, KernelLibrary>();

function libraryOf(gpu: GpuDevice): KernelLibrary {
  let library = libraries.get(gpu);
  if (!library) {
    library = new KernelLibrary(gpu, readShader);
    libraries.set(gpu, library);
  }
  return library;
}
