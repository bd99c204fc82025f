/**
 * Measures dispatches by the host's clock. One submit holds many dispatches, so that submission overhead is negligible.
 */
import type { Clock } from '../engine/types.ts';
import type { GpuDevice } from './device.ts';
import type { Dispatch, KernelLibrary } from './kernels.ts';

/** Target duration of a round. */
const ROUND_MS = 23;
const MOST_REPEATS = 4096;

/** Milliseconds of one submit that contains all dispatches `repeats` times. */
export async function timeSubmit(
  gpu: GpuDevice,
  library: KernelLibrary,
  works: readonly Dispatch[],
  repeats: number,
  clock: Pick<Clock, 'now'>,
): Promise<number> {
  const encoder = gpu.device.createCommandEncoder({ label: 'timing' });
  const pass = encoder.beginComputePass({ label: 'timing' });
  for (let i = 0; i < repeats; i++) for (const work of works) library.encode(pass, work);
  pass.end();
  const commands = encoder.finish();
  const start = clock.now();
  await gpu.run([[commands]]);
  return clock.now() - start;
}

/**
 * Doubles the repeats until a submit takes `ms`, or MOST_REPEATS is reached. An empty submit takes longer than a small
 * kernel on a GPU.
 */
export async function repeatsFor(ms: number, time: (repeats: number) => Promise<number>): Promise<number> {
  let repeats = 1;
  while (repeats < MOST_REPEATS && (await time(repeats)) < ms) repeats *= 2;
  return repeats;
}

/**
 * By round: milliseconds of the dispatches together. Each round repeats them until it takes about ROUND_MS, and
 * divides. Compiles first.
 */
export async function timeRounds(
  gpu: GpuDevice,
  library: KernelLibrary,
  works: readonly Dispatch[],
  clock: Clock,
  rounds: number,
): Promise<number[]> {
  const time = (repeats: number) => timeSubmit(gpu, library, works, repeats, clock);
  await time(1);
  const repeats = await repeatsFor(ROUND_MS, time);
  const times: number[] = [];
  for (let i = 0; i < rounds; i++) times.push((await time(repeats)) / repeats);
  return times;
}
