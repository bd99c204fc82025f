/**
 * Entry point of a simulation thread (--jobs). It prepares the work that its settings describe, then answers each job
 * with its result or error.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { nodeDeps } from '../src/cli/node/node-deps.ts';
import type { ThreadJob, ThreadWork } from '../src/cli/simulate/thread.ts';
import { workOf } from '../src/cli/simulate/thread-work.ts';
import type { RunConfig } from '../src/config/run.ts';
import { toWire } from '../src/errors.ts';
import { addOwnPolicies } from '../src/router/policies/add-own.ts';

const { work, config } = workerData as { work: ThreadWork; config: RunConfig };
const prepared = prepare();

async function prepare() {
  const deps = await nodeDeps();
  await addOwnPolicies(config.routingModule, deps);
  return workOf(work, config, deps);
}

parentPort!.on('message', async (job: ThreadJob<typeof work>) => {
  try {
    const does = await prepared;
    parentPort!.postMessage({ result: await does(job) });
  } catch (error) {
    parentPort!.postMessage({ error: toWire(error) });
  }
});
