/** Dispatches single kernels on a separate device, with plain arrays as inputs, and returns the results without judging them. */
import type { Arithmetic } from '../../config/arithmetic.ts';
import { bytesOf } from '../../copy-bytes.ts';
import { wholeVec4s } from '../../gpu/buffer-size.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { type Kernel, KernelLibrary, kernels } from '../../gpu/kernels.ts';
import { type AdapterForm, adapterForm } from '../../model/kernels/kernel-variants.ts';
import { openDevice } from '../../model/open-device.ts';
import type { Platform } from '../../platform/types.ts';

export type KernelInput = Float32Array | Uint32Array | Uint16Array | ArrayBuffer;

/** Workgroup counts in x, y and z. */
export type Workgroups = readonly [number, number, number?];

export interface KernelBench {
  arithmetic: Arithmetic;
  library: KernelLibrary;
  /** The form that the runner uses on this adapter, then the portable one, if different. */
  forms: readonly [AdapterForm, ...AdapterForm[]];
  /**
   * `inputs`: one array per binding, in binding order, also for bindings that are only written. Resolves to the contents of
   * the written bindings, in order, padded to 16 bytes. Throws EngineDeadError for an invalid dispatch.
   */
  run(kernel: Kernel, inputs: readonly KernelInput[], workgroups: Workgroups): Promise<ArrayBuffer[]>;
}

/** Opens a device for `use`, and always destroys it afterwards. Throws ConfigError for f16 if the adapter lacks it. */
export async function withBench<T>(
  platform: Platform,
  arithmetic: Arithmetic,
  signal: AbortSignal,
  use: (bench: KernelBench) => Promise<T>,
): Promise<T> {
  const gpu = await openDevice(platform, await platform.createGpu(), { bufferBytes: 0, arithmetic });
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

/** Runs one kernel once, on new buffers; see KernelBench.run. */
export async function dispatch(
  gpu: GpuDevice,
  library: KernelLibrary,
  kernel: Kernel,
  inputs: readonly KernelInput[],
  [x, y, z = 1]: Workgroups,
): Promise<ArrayBuffer[]> {
  const kinds = kernels[kernel.name].bindings;
  const buffers = inputs.map((input, i) => upload(gpu, input, kinds[i] === 'uniform'));
  const encoder = gpu.device.createCommandEncoder({ label: `check ${kernel.name}` });
  const pass = encoder.beginComputePass();
  library.encode(pass, { kernel, bindGroup: library.bind(kernel, 'check', buffers), x, y, z });
  pass.end();
  const written = buffers.filter((_, i) => kinds[i] === 'write');
  const contents = await readBack(gpu, written, encoder);
  for (const buffer of buffers) buffer.destroy();
  return contents;
}

/** Runs what was encoded, then reads the buffers. */
export async function readBack(
  gpu: GpuDevice,
  buffers: readonly GPUBuffer[],
  encoder: GPUCommandEncoder = gpu.device.createCommandEncoder(),
): Promise<ArrayBuffer[]> {
  const copies = buffers.map((buffer) => {
    const { size } = buffer;
    const copy = gpu.device.createBuffer({ size, usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
    encoder.copyBufferToBuffer(buffer, 0, copy, 0, size);
    return copy;
  });
  await gpu.run([[encoder.finish()]]);
  const contents: ArrayBuffer[] = [];
  for (const copy of copies) {
    await gpu.guard(copy.mapAsync(GPUMapMode.READ));
    contents.push(copy.getMappedRange().slice(0));
    copy.destroy();
  }
  return contents;
}

/** Creates a buffer with this content, zero-padded to 16 bytes. */
export function upload(gpu: GpuDevice, input: KernelInput, uniform: boolean): GPUBuffer {
  const bytes = input instanceof ArrayBuffer ? new Uint8Array(input) : bytesOf(input);
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
