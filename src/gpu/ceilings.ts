/**
 * What an adapter does at most, measured: multiply-adds in registers, and plain reads of a large buffer. Percentages of a
 * kernel's speed are of these, measured in the same process.
 */
import type { Clock } from '../engine/types.ts';
import type { GpuDevice } from './device.ts';
import { type Dispatch, KernelLibrary, type KernelName } from './kernels.ts';
import { type UniformName, type UniformValues, uniformBuffer } from './uniforms.ts';

export interface Ceilings {
  /** GFLOP/s, a multiply-add counted as two. */
  gflops: number;
  /** GB/s, 10^9 bytes. */
  readGbps: number;
}

const ROUNDS = 5;
/** A round is made this long, so that its way to the device and back does not count. */
const ROUND_MS = 23;
const READ_BYTES = 32 * 2 ** 20;

/** The best of some rounds. Takes about a second. */
export async function measureCeilings(
  gpu: GpuDevice,
  readShader: (name: string) => Promise<string>,
  clock: Clock,
): Promise<Ceilings> {
  const library = new KernelLibrary(gpu, readShader);
  const buffers: GPUBuffer[] = [];
  const storage = (size: number): GPUBuffer => {
    const buffer = gpu.device.createBuffer({ size, usage: GPUBufferUsage.STORAGE });
    buffers.push(buffer);
    return buffer;
  };
  const uniform = <N extends UniformName>(name: N, values: UniformValues<N>): GPUBuffer => {
    const buffer = uniformBuffer(gpu.device, name, values);
    buffers.push(buffer);
    return buffer;
  };
  const dispatch = async (name: KernelName, inputs: GPUBuffer[], threads: number): Promise<Dispatch> => {
    const kernel = await library.get(name, { WORKGROUP: 64 });
    return { kernel, bindGroup: library.bind(kernel, 'ceiling', inputs), x: threads / 64, y: 1 };
  };
  const bestMs = async (work: Dispatch) =>
    Math.min(...(await timeRounds(gpu, library, [work], clock, ROUNDS)));
  try {
    // A software adapter has a thread a core; a GPU wants very many.
    const threads = gpu.report.software ? 4096 : 262_144;
    const turns = 256;
    const addMs = await bestMs(
      await dispatch(
        'ceilingMultiplyAdd',
        [storage(16), storage(16 * threads), uniform('ceilingMultiplyAdd', { turns })],
        threads,
      ),
    );
    const large = storage(READ_BYTES);
    const sums = storage(16 * threads);
    const count = READ_BYTES / 16 / threads;
    // Side by side, as a GPU likes it; and each thread a stretch of its own.
    const ways = [
      { count, stride: threads, offset: 1 },
      { count, stride: 1, offset: count },
    ];
    const readMs: number[] = [];
    for (const way of ways) {
      readMs.push(
        await bestMs(await dispatch('ceilingRead', [large, sums, uniform('ceilingRead', way)], threads)),
      );
    }
    return {
      gflops: (threads * turns * 48 * 2) / addMs / 1e6,
      readGbps: READ_BYTES / Math.min(...readMs) / 1e6,
    };
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}

/** Milliseconds of the dispatches together, by round: each of as many in a row as take ROUND_MS. Compiles first. */
export async function timeRounds(
  gpu: GpuDevice,
  library: KernelLibrary,
  works: readonly Dispatch[],
  clock: Clock,
  rounds: number,
): Promise<number[]> {
  const round = async (repeats: number): Promise<number> => {
    const encoder = gpu.device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    for (let i = 0; i < repeats; i++) for (const work of works) library.encode(pass, work);
    pass.end();
    const commands = encoder.finish();
    const start = clock.now();
    await gpu.run([commands]);
    return clock.now() - start;
  };
  await round(1);
  const once = await round(1);
  const repeats = Math.max(1, Math.min(1000, Math.ceil(ROUND_MS / Math.max(once, 0.01))));
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) times.push((await round(repeats)) / repeats);
  return times;
}
