/** Simulation threads for the duration of some work. */
import type { RunConfig } from '../../config/run.ts';
import { isCostsFile } from '../../config/simulate-schema.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import { plural } from '../../measure/format.ts';
import type { CommandContext } from '../deps.ts';
import type { SimulationThread, ThreadWork } from './thread.ts';

/**
 * Ends the threads when the work is over, successful or not. If the signal aborts, ends them at once and rejects with its
 * reason. Throws ConfigError if the system cannot start that many, or if a file cannot be read by all of them.
 */
export async function withThreads<Of extends ThreadWork, T>(
  { of, count, config }: { of: Of; count: number; config: RunConfig },
  { deps, signal }: CommandContext,
  work: (threads: readonly SimulationThread<Of>[]) => Promise<T>,
): Promise<T> {
  await checkReadable(config, deps);
  // A listener added after the abort would not be called.
  signal.throwIfAborted();
  const threads: SimulationThread<Of>[] = [];
  const end = () => Promise.all(threads.map((thread) => thread.end()));
  const stop = (): void => void end();
  signal.addEventListener('abort', stop);
  try {
    while (threads.length < count)
      threads.push(started(threads.length, count, () => deps.startSimulationThread(of, config)));
    return await work(threads);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    await end();
  }
}

/** Each thread reads the input files itself, and a pipe can be read only once. Throws ConfigError. */
async function checkReadable(
  { inputFile, trace, costs }: RunConfig,
  { plainFileId }: CommandContext['deps'],
): Promise<void> {
  for (const file of [inputFile, trace, isCostsFile(costs) ? costs : null])
    if (file !== null && (await plainFileId(file)) === null)
      throw new ConfigError(
        `${file} is not a regular file, and each thread reads it: give --jobs 1, or write it to a file, and give that`,
      );
}

function started<T>(before: number, count: number, start: () => T): T {
  try {
    return start();
  } catch (error) {
    throw new ConfigError(
      `only ${before} of ${plural(count, 'thread')} could be started (${messageOf(error)}): give fewer --jobs`,
      { cause: error },
    );
  }
}
