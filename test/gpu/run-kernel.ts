/** Runs one kernel on plain arrays. */
import type { GpuDevice } from '../../src/gpu/device.ts';
import { KernelLibrary, type KernelName, type Overrides } from '../../src/gpu/kernels.ts';
import { dispatch, type KernelInput, type Workgroups } from '../../src/lab/verify/kernel-bench.ts';
import { readShader } from './adapter.ts';

/** `inputs`: one array per binding, in order, written bindings included. Returns the final content of the written ones. */
export async function runKernel(
  gpu: GpuDevice,
  name: KernelName,
  overrides: Overrides,
  inputs: readonly KernelInput[],
  workgroups: Workgroups,
): Promise<ArrayBuffer[]> {
  const library = libraryOf(gpu);
  return dispatch(gpu, library, await library.get(name, overrides), inputs, workgroups);
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
