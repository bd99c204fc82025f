/** Entry of a store's thread in Node. */
import { workerData } from 'node:worker_threads';
import { redisUrl, withoutPassword } from '../src/config/store-url.ts';
import { expose } from '../src/host/rpc.ts';
import { systemClock } from '../src/platform/clock.ts';
import { directoryFolder } from '../src/platform/node/store-folder.ts';
import { hostStore } from '../src/store/host.ts';

const { port } = workerData as { port: MessagePort };
// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const openFolder = async (directory: string) => directoryFolder(directory);
// Its client is loaded where a server is asked for.
const openServer = async (url: string) => {
  const { redisServer } = await import('../src/platform/node/redis.ts');
  return redisServer(redisUrl(url), withoutPassword(url));
};
expose(hostStore({ clock: systemClock, openFolder, openServer, exit }), port);
