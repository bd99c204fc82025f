/**
 * Body of an engine's thread in Node. The entry point (engine-node.ts) imports it after it enables the compile cache.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { FaultyClock } from '../src/faults/clock.ts';
import { hostEngine } from '../src/host/engine-host.ts';
import { expose } from '../src/host/rpc.ts';
import { systemClock } from '../src/platform/clock.ts';
import { nextTask } from '../src/platform/next-task.ts';
import { loadAddon } from '../src/platform/node/gpu.ts';
import { nodePlatform } from '../src/platform/node.ts';

const { port } = workerData as { port: MessagePort };
// The reply to shutdown() is sent in this turn of the event loop, so the thread exits in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const clock = new FaultyClock(systemClock);
expose(hostEngine({ platform: nodePlatform, clock, moveClock: clock.move, nextTask, exit }), port);
await loadAddon();
// Until this message arrives, the starter must not terminate the thread (src/platform/node/threads.ts).
parentPort!.postMessage('loaded');
