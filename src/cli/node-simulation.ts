/** A thread that simulates, in Node. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { RunConfig } from '../config/run.ts';
import { fromWire, InternalError, type WireError } from '../errors.ts';
import { bundled } from '../platform/node/paths.ts';
import type { SimulationThread, ThreadResult, ThreadWork } from './simulate/thread.ts';

export function startSimulationThread<Work extends ThreadWork>(
  work: Work,
  config: RunConfig,
): SimulationThread<Work> {
  const worker = new Worker(bundled('simulate-node'), { name: work, workerData: { work, config } });
  // One that was told to end answers nobody.
  const ended = once(worker, 'exit').then((): never => {
    throw new InternalError(`the thread of ${work} ended`);
  });
  ended.catch(() => {});
  return {
    async run(job) {
      // An 'error', such as a thread without memory, rejects too.
      const answer = once(worker, 'message');
      worker.postMessage(job);
      const [told] = (await Promise.race([answer, ended])) as [
        { result: ThreadResult<Work> } | { error: WireError },
      ];
      if ('error' in told) throw fromWire(told.error);
      return told.result;
    },
    async end() {
      await worker.terminate();
    },
  };
}
