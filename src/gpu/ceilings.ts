/**
 * Measures an adapter's ceilings: multiply-adds in registers, and plain reads of a large buffer. Kernel speeds are
 * reported as percentages of these ceilings, measured in the same process.
 */
import type { Clock } from '../engine/types.ts';
import type { GpuDevice } from './device.ts';
import { KernelLibrary, type ReadShader } from './kernels.ts';
import { timeRounds } from './timing.ts';
import { type UniformValues, uniformBuffer } from './uniforms.ts';

export interface Ceilings {
  /** GFLOP/s. A multiply-add counts as two operations. */
  gflops: number;
  /** GB/s; a GB is 10^9 bytes. */
  readGbps: number;
}

const ROUNDS = 5;
const READ_BYTES = 32 * 2 ** 20;
/** Threads per workgroup, for both kernels here. */
const WORKGROUP = 64;
/** Fixed in shaders/ceiling_read.wgsl: vec4s that a thread reads in one turn. */
const READS_A_TURN = 8;

/** A software adapter runs one thread per core. A GPU needs a very large number to be busy. */
const enoughThreads = ({ report }: GpuDevice): number => (report.software ? 4096 : 262_144);

/** Takes the best of several rounds, in about a second. */
export async function measureCeilings(
  gpu: GpuDevice,
  readShader: ReadShader,
  clock: Clock,
): Promise<Ceilings> {
  const library = new KernelLibrary(gpu, readShader);
  const threads = enoughThreads(gpu);
  const turns = 256;
  const [addMs] = await bestMs(
    { gpu, library, clock, rounds: ROUNDS },
    { name: 'ceilingMultiplyAdd', inputBytes: 16, threads, values: [{ turns }] },
  );
  return {
    gflops: (threads * turns * 48 * 2) / addMs! / 1e6,
    readGbps: await readRate({ gpu, library, clock, rounds: ROUNDS }, READ_BYTES),
  };
}

interface Bench {
  gpu: GpuDevice;
  library: KernelLibrary;
  clock: Clock;
  rounds: number;
}

/** GB/s of a dispatch that only reads. It reads `bytes`, rounded up to what all its threads read. */
export async function readRate(bench: Bench, bytes: number): Promise<number> {
  const turns = bytes / 16 / READS_A_TURN;
  const count = READS_A_TURN * Math.ceil(turns / enoughThreads(bench.gpu));
  const threads = WORKGROUP * Math.ceil(bytes / 16 / count / WORKGROUP);
  // Two access patterns: neighbouring threads read neighbouring vec4s, which suits a GPU, or each thread reads its own
  // contiguous range.
  const values = [
    { count, stride: threads, offset: 1 },
    { count, stride: 1, offset: count },
  ];
  const read = 16 * count * threads;
  const ms = await bestMs(bench, { name: 'ceilingRead', inputBytes: read, threads, values });
  return read / Math.min(...ms) / 1e6;
}

/** The best round for each of the uniform's values, in milliseconds. */
async function bestMs<N extends 'ceilingMultiplyAdd' | 'ceilingRead'>(
  { gpu, library, clock, rounds }: Bench,
  work: { name: N; inputBytes: number; threads: number; values: UniformValues<N>[] },
): Promise<number[]> {
  const { name, inputBytes, threads, values } = work;
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST;
  const storage = (size: number) => gpu.device.createBuffer({ size, usage });
  const buffers = [storage(inputBytes), storage(16 * threads)];
  gpu.zero(...buffers);
  try {
    const kernel = await library.get(name, { WORKGROUP });
    const best: number[] = [];
    for (const value of values) {
      const uniform = uniformBuffer(gpu.device, name, value);
      const bindGroup = library.bind(kernel, 'ceiling', [buffers[0]!, buffers[1]!, uniform]);
      const dispatch = { kernel, bindGroup, x: threads / WORKGROUP, y: 1 };
      best.push(Math.min(...(await timeRounds(gpu, library, [dispatch], clock, rounds))));
      uniform.destroy();
    }
    return best;
  } finally {
    for (const buffer of buffers) buffer.destroy();
  }
}
