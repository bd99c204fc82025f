/** Entry of a store's thread in Node. */
import { workerData } from 'node:worker_threads';
import { expose } from '../src/host/rpc.ts';
import { systemClock } from '../src/platform/clock.ts';
import { directoryFolder } from '../src/platform/node/store-folder.ts';
import { hostStore } from '../src/store/host.ts';

const { port } = workerData as { port: MessagePort };
// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const openFolder = async (directory: string) => directoryFolder(directory);
expose(hostStore({ clock: systemClock, openFolder, exit }), port);
