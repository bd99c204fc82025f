/** How long dispatches take by the host's clock: many in one submit, so that their way to the device does not count. */
import type { Clock } from '../engine/types.ts';
import type { GpuDevice } from './device.ts';
import type { Dispatch, KernelLibrary } from './kernels.ts';

/** A round is made this long. */
const ROUND_MS = 23;
const MOST_REPEATS = 4096;

/** Milliseconds of one submit that has all dispatches so many times. */
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
  await gpu.run([commands]);
  return clock.now() - start;
}

/** Twice as many, until they take so long: an empty submit takes longer than a small kernel of a GPU. */
export async function repeatsFor(ms: number, time: (repeats: number) => Promise<number>): Promise<number> {
  let repeats = 1;
  while (repeats < MOST_REPEATS && (await time(repeats)) < ms) repeats *= 2;
  return repeats;
}

/** Milliseconds of the dispatches together, by round: each of as many in a row as take ROUND_MS. Compiles first. */
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
