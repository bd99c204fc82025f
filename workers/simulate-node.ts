/** Entry of a thread that simulates for --jobs: prepares what its settings say, and answers each job with its outcome. */
import { parentPort, workerData } from 'node:worker_threads';
import { nodeDeps } from '../src/cli/node-deps.ts';
import { prepareSimulation } from '../src/cli/simulate/prepared.ts';
import type { SimulationJob } from '../src/cli/simulate/thread.ts';
import type { RunConfig } from '../src/config/run.ts';
import { toWire } from '../src/errors.ts';
import { simulateSeed } from '../src/simulate/run.ts';

const { config } = workerData as { config: RunConfig };
const prepared = nodeDeps().then((deps) => prepareSimulation(config, deps));
const never = new AbortController().signal;

parentPort!.on('message', async ({ arm, seed }: SimulationJob) => {
  try {
    const { planned, world } = await prepared;
    const outcome = await simulateSeed(
      planned.arms[arm]!,
      world(never, () => {}),
      seed,
    );
    parentPort!.postMessage({ outcome });
  } catch (error) {
    parentPort!.postMessage({ error: toWire(error) });
  }
});
