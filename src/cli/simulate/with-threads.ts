/** Threads that simulate, for as long as there is work for them. */
import type { RunConfig } from '../../config/run.ts';
import { isCostsFile } from '../../config/simulate-schema.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import type { CommandContext } from '../deps.ts';
import { plural } from '../format.ts';
import type { SimulationThread, ThreadWork } from './thread.ts';

/**
 * Ends them when the work is over, however, and at once when the signal aborts: then that is what it rejects with. ConfigError
 * where the system has no room for so many, or a file cannot be read by all of them.
 */
export async function withThreads<Of extends ThreadWork, T>(
  { of, count, config }: { of: Of; count: number; config: RunConfig },
  { deps, signal }: CommandContext,
  work: (threads: readonly SimulationThread<Of>[]) => Promise<T>,
): Promise<T> {
  await checkReadable(config, deps);
  // Of what was aborted meanwhile no listener hears any more.
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

/** Each thread reads what is named by itself, and of a pipe the first reader takes all. Throws ConfigError. */
async function checkReadable(
  { inputFile, trace, costs }: RunConfig,
  { plainFileId }: CommandContext['deps'],
): Promise<void> {
  for (const file of [inputFile, trace, isCostsFile(costs) ? costs : null])
    if (file !== null && (await plainFileId(file)) === null)
      throw new ConfigError(
        `${file} is no plain file, and each thread reads it: give --jobs 1, or write it to a file, and give that`,
      );
}

function started<T>(before: number, count: number, start: () => T): T {
  try {
    return start();
  } catch (error) {
    throw new ConfigError(
      `of ${plural(count, 'thread')} ${before} could be started (${messageOf(error)}): give fewer --jobs`,
      { cause: error },
    );
  }
}
