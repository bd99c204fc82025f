/** Buffers and timing for kernels, one after another on one device. */
import type { GpuDevice } from '../../../gpu/device.ts';
import { type Kernel, KernelLibrary } from '../../../gpu/kernels.ts';
import { timeRounds } from '../../../gpu/timing.ts';
import { type KernelInput, readBack, upload } from '../../../lab/verify/kernel-bench.ts';
import { systemClock } from '../../../platform/clock.ts';
import { nodePlatform } from '../../../platform/node.ts';

export interface Workbench {
  gpu: GpuDevice;
  library: KernelLibrary;
  rounds: number;
}

/** The buffers and dispatch of a measured kernel. */
export interface Job {
  kernel: Kernel;
  /** Buffers in binding order. */
  inputs: readonly KernelInput[];
  /** The buffer that the kernel writes. */
  output: number;
  workgroups: readonly [number, number, number?];
}

/** A second kernel, which reads the first one's output and other buffers. */
export interface SecondJob extends Omit<Job, 'inputs'> {
  /** 'first': the first kernel's output. */
  inputs: readonly (KernelInput | 'first')[];
}

/** Milliseconds per round for one dispatch or for both, and the output of the last one. */
export interface Timed {
  ms: number[];
  output: Float32Array;
}

export function workbench(gpu: GpuDevice, rounds: number): Workbench {
  return { gpu, library: new KernelLibrary(gpu, nodePlatform.readShader), rounds };
}

export async function time(bench: Workbench, job: Job, second: SecondJob | null = null): Promise<Timed> {
  const { gpu, library, rounds } = bench;
  const create = (input: KernelInput): GPUBuffer => upload(gpu, input, input instanceof ArrayBuffer);
  const dispatchOf = ({ kernel, workgroups: [x, y, z = 1] }: Omit<Job, 'inputs'>, own: GPUBuffer[]) => {
    return { kernel, bindGroup: library.bind(kernel, 'bench', own), x, y, z };
  };
  const buffers = job.inputs.map(create);
  const works = [dispatchOf(job, buffers)];
  let written = buffers[job.output]!;
  if (second) {
    const first = written;
    const more = second.inputs.map((input) => (input === 'first' ? first : create(input)));
    works.push(dispatchOf(second, more));
    written = more[second.output]!;
    buffers.push(...more.filter((buffer) => buffer !== first));
  }
  const ms = await timeRounds(gpu, library, works, systemClock, rounds);
  const [output] = await readBack(gpu, [written]);
  for (const buffer of buffers) buffer.destroy();
  return { ms, output: new Float32Array(output!) };
}

/** The same numbers every time, in [-1, 1). */
export function numbers(count: number, seed: number): Float32Array {
  const out = new Float32Array(count);
  let state = (seed * 2_654_435_761) >>> 0;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    out[i] = state / 2 ** 31 - 1;
  }
  return out;
}

/** Positions to compare with float64; comparing all would take longer than the measurement. */
export const probes = (count: number, many = 64): number[] =>
  Array.from({ length: Math.min(many, count) }, (_, i) =>
    Math.floor(((i + 0.5) * count) / Math.min(many, count)),
  );

/** The figure of the fastest alternation, because rates are those of the best round, with the times of all. */
export function joined<K extends string, T extends { ms: number[] }>(
  turns: readonly Record<K, T>[],
  of: K,
): T {
  const figures = turns.map((turn) => turn[of]);
  const quickest = figures.reduce((a, b) => (Math.min(...b.ms) < Math.min(...a.ms) ? b : a));
  return { ...quickest, ms: figures.flatMap(({ ms }) => ms) };
}
