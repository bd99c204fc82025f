/** Entry of an engine's thread in Node. */
import { workerData } from 'node:worker_threads';
import { useCompileCache } from '../src/platform/node/compile-cache.ts';

useCompileCache();
const [{ hostEngine }, { expose }, { nodePlatform }, { FaultyClock }, { systemClock }, { nextTask }] =
  await Promise.all([
    import('../src/host/engine-host.ts'),
    import('../src/host/rpc.ts'),
    import('../src/platform/node.ts'),
    import('../src/faults/clock.ts'),
    import('../src/platform/clock.ts'),
    import('../src/platform/next-task.ts'),
  ]);

const { port } = workerData as { port: MessagePort };
// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const clock = new FaultyClock(systemClock);
expose(hostEngine({ platform: nodePlatform, clock, moveClock: clock.move, nextTask, exit }), port);
