/** Threads that simulate, for as long as there is work for them. */
import type { RunConfig } from '../../config/run.ts';
import { ConfigError, messageOf } from '../../errors.ts';
import type { CommandContext } from '../deps.ts';
import { plural } from '../format.ts';
import type { SimulationThread, ThreadWork } from './thread.ts';

/**
 * Ends them when the work is over, however, and at once when the signal aborts: then that is what it rejects with. ConfigError
 * where the system has no room for so many.
 */
export async function withThreads<Of extends ThreadWork, T>(
  { of, count, config }: { of: Of; count: number; config: RunConfig },
  { deps, signal }: CommandContext,
  work: (threads: readonly SimulationThread<Of>[]) => Promise<T>,
): Promise<T> {
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
