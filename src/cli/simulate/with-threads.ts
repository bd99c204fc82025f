/** Threads that simulate, for as long as there is work for them. */
import type { RunConfig } from '../../config/run.ts';
import type { CommandContext } from '../deps.ts';
import type { SimulationThread, ThreadWork } from './thread.ts';

/** Ends them when the work is over, however, and at once when the signal aborts: then that is what it rejects with. */
export async function withThreads<Of extends ThreadWork, T>(
  { of, count, config }: { of: Of; count: number; config: RunConfig },
  { deps, signal }: CommandContext,
  work: (threads: readonly SimulationThread<Of>[]) => Promise<T>,
): Promise<T> {
  const threads = Array.from({ length: count }, () => deps.startSimulationThread(of, config));
  const end = () => Promise.all(threads.map((thread) => thread.end()));
  const stop = (): void => void end();
  signal.addEventListener('abort', stop);
  try {
    return await work(threads);
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
    await end();
  }
}
