/** Single kernels on a device of their own: dispatched once on plain arrays, their results read back. Judges nothing. */
import type { Arithmetic } from '../../config/arithmetic.ts';
import { wholeVec4s } from '../../gpu/buffer-size.ts';
import { GpuDevice } from '../../gpu/device.ts';
import { type Kernel, KernelLibrary, kernels } from '../../gpu/kernels.ts';
import { type AdapterForm, adapterForm } from '../../model/kernel-variants.ts';
import type { Platform } from '../../platform/types.ts';

export type KernelInput = Float32Array | Uint32Array | Uint16Array | ArrayBuffer;

/** In x, y and z. */
export type Workgroups = readonly [number, number, number?];

export interface KernelBench {
  arithmetic: Arithmetic;
  library: KernelLibrary;
  /** The form that the runner takes on this adapter, and the one that any adapter can take. */
  forms: readonly [AdapterForm, ...AdapterForm[]];
  /**
   * Inputs in binding order, an array for each binding, also for what is only written. Resolves to what the written
   * ones hold afterwards, in that order, padded to 16 bytes. Throws EngineDeadError for a dispatch that is not valid.
   */
  run(kernel: Kernel, inputs: readonly KernelInput[], workgroups: Workgroups): Promise<ArrayBuffer[]>;
}

/** Opens a device for `use` and destroys it afterwards, whatever happens. Throws ConfigError for f16 where there is none. */
export async function withBench<T>(
  platform: Platform,
  arithmetic: Arithmetic,
  signal: AbortSignal,
  use: (bench: KernelBench) => Promise<T>,
): Promise<T> {
  const gpu = await GpuDevice.open(await platform.createGpu(), { bufferBytes: 0, arithmetic });
  try {
    const chosen = adapterForm(gpu.report);
    const portable = { ...chosen, subgroup: null };
    const library = new KernelLibrary(gpu, platform.readShader);
    return await use({
      arithmetic,
      library,
      forms: chosen.subgroup === null ? [portable] : [chosen, portable],
      run: async (kernel, inputs, workgroups) => {
        signal.throwIfAborted();
        return dispatch(gpu, library, kernel, inputs, workgroups);
      },
    });
  } finally {
    gpu.destroy('the check ended');
  }
}

/** Runs one kernel once, on buffers of its own; see KernelBench.run. */
export async function dispatch(
  gpu: GpuDevice,
  library: KernelLibrary,
  kernel: Kernel,
  inputs: readonly KernelInput[],
  [x, y, z = 1]: Workgroups,
): Promise<ArrayBuffer[]> {
  const kinds = kernels[kernel.name].bindings;
  const buffers = inputs.map((input, i) => upload(gpu, input, kinds[i] === 'uniform'));
  const results = buffers
    .filter((_, i) => kinds[i] === 'write')
    .map(({ size }) => ({
      size,
      buffer: gpu.device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST }),
    }));
  const encoder = gpu.device.createCommandEncoder({ label: `check ${kernel.name}` });
  const pass = encoder.beginComputePass();
  library.encode(pass, { kernel, bindGroup: library.bind(kernel, 'check', buffers), x, y, z });
  pass.end();
  buffers
    .filter((_, i) => kinds[i] === 'write')
    .forEach((buffer, i) => {
      encoder.copyBufferToBuffer(buffer, 0, results[i]!.buffer, 0, buffer.size);
    });
  await gpu.run([encoder.finish()]);
  const contents: ArrayBuffer[] = [];
  for (const { buffer } of results) {
    await gpu.guard(buffer.mapAsync(GPUMapMode.READ));
    contents.push(buffer.getMappedRange().slice(0));
    buffer.unmap();
  }
  for (const buffer of [...buffers, ...results.map((result) => result.buffer)]) buffer.destroy();
  return contents;
}

/** A buffer with this in it. */
export function upload(gpu: GpuDevice, input: KernelInput, uniform: boolean): GPUBuffer {
  const bytes =
    input instanceof ArrayBuffer
      ? new Uint8Array(input)
      : new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
  const buffer = gpu.device.createBuffer({
    size: wholeVec4s(bytes.byteLength),
    usage: (uniform ? GPUBufferUsage.UNIFORM : GPUBufferUsage.STORAGE) | GPUBufferUsage.COPY_SRC,
    mappedAtCreation: true,
  });
  const mapped = new Uint8Array(buffer.getMappedRange());
  mapped.set(bytes);
  mapped.fill(0, bytes.byteLength);
  buffer.unmap();
  return buffer;
}
