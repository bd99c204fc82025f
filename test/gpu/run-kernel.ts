/** Runs one kernel on plain arrays. */
import type { GpuDevice } from '../../src/gpu/device.ts';
import { type Arithmetic, KernelLibrary, type KernelName, type Overrides } from '../../src/gpu/kernels.ts';
import { dispatch, type KernelInput, type Workgroups } from '../../src/lab/verify/kernel-bench.ts';
import { readShader } from './adapter.ts';

/** Bindings in order; an array for each, also for what is written. Returns what the written ones hold afterwards. */
export async function runKernel(
  gpu: GpuDevice,
  name: KernelName,
  overrides: Overrides,
  inputs: readonly KernelInput[],
  workgroups: Workgroups,
  arithmetic: Arithmetic = 'f32',
): Promise<ArrayBuffer[]> {
  const library = libraryOf(gpu, arithmetic);
  return dispatch(gpu, library, await library.get(name, overrides), inputs, workgroups);
}

const libraries = new WeakMap<GpuDevice, KernelLibrary>();

function libraryOf(gpu: GpuDevice, arithmetic: Arithmetic): KernelLibrary {
  let library = libraries.get(gpu);
  if (library?.arithmetic !== arithmetic) {
    library = new KernelLibrary(gpu, readShader, arithmetic);
    libraries.set(gpu, library);
  }
  return library;
}
