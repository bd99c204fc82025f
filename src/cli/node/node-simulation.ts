/** A simulation thread in Node. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { RunConfig } from '../../config/run.ts';
import { fromWire, InternalError, type WireError } from '../../errors.ts';
import { bundled } from '../../platform/node/paths.ts';
import type { SimulationThread, ThreadResult, ThreadWork } from '../simulate/thread.ts';

export function startSimulationThread<Work extends ThreadWork>(
  work: Work,
  config: RunConfig,
): SimulationThread<Work> {
  const worker = new Worker(bundled('simulate-node'), { name: work, workerData: { work, config } });
  // A terminated thread answers no jobs, so its exit must reject them.
  const ended = once(worker, 'exit').then((): never => {
    throw new InternalError(`the thread of ${work} ended`);
  });
  ended.catch(() => {});
  return {
    async run(job) {
      // An 'error' event, such as out of memory, also rejects.
      const answer = once(worker, 'message');
      worker.postMessage(job);
      const [message] = (await Promise.race([answer, ended])) as [
        { result: ThreadResult<Work> } | { error: WireError },
      ];
      if ('error' in message) throw fromWire(message.error);
      return message.result;
    },
    async end() {
      await worker.terminate();
    },
  };
}
