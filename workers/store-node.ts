/** Entry point of a store's thread in Node. */
import { workerData } from 'node:worker_threads';
import { redisUrl, withoutPassword } from '../src/config/store-url.ts';
import { expose } from '../src/host/rpc.ts';
import { systemClock } from '../src/platform/clock.ts';
import { directoryFolder } from '../src/platform/node/store-folder.ts';
import { hostStore } from '../src/store/host.ts';

const { port } = workerData as { port: MessagePort };
// The reply to shutdown() is sent in this turn of the event loop, so the thread exits in a later one.
const exit = (): void => void setTimeout(() => process.exit(0), 20);
const openFolder = async (directory: string) => directoryFolder(directory);
// The Redis client is loaded only when a server is configured.
const openServer = async (url: string) => {
  const { redisServer } = await import('../src/platform/node/redis.ts');
  return redisServer(redisUrl(url), withoutPassword(url));
};
expose(hostStore({ clock: systemClock, openFolder, openServer, exit }), port);
