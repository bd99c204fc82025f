/** What an engine's thread in Node is made of. Loaded by its entry, once that has opened the cache of compiled modules. */
import { parentPort, workerData } from 'node:worker_threads';
import { FaultyClock } from '../src/faults/clock.ts';
import { hostEngine } from '../src/host/engine-host.ts';
import { expose } from '../src/host/rpc.ts';
import { systemClock } from '../src/platform/clock.ts';
import { nextTask } from '../src/platform/next-task.ts';
import { loadAddon } from '../src/platform/node/gpu.ts';
import { nodePlatform } from '../src/platform/node.ts';

const { port } = workerData as { port: MessagePort };
// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const clock = new FaultyClock(systemClock);
expose(hostEngine({ platform: nodePlatform, clock, moveClock: clock.move, nextTask, exit }), port);
await loadAddon();
// Until then whoever started it must not end it (src/platform/node/threads.ts).
parentPort!.postMessage('loaded');
