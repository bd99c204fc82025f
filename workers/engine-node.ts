/** Entry of an engine's thread in Node. */
import { workerData } from 'node:worker_threads';
import { expose } from '../src/cluster/rpc.ts';
import { nodePlatform } from '../src/platform/node.ts';
import { EngineHost } from './engine-host.ts';

const { port } = workerData as { port: MessagePort };
// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
expose(new EngineHost(nodePlatform, exit), port);
