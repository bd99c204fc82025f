/** Entry point of a store's thread in a browser. */
import { expose } from '../src/host/rpc.ts';
import { originFolder } from '../src/platform/browser/origin-folder.ts';
import { endWorker, type StoreWorkerStart } from '../src/platform/browser/worker.ts';
import { systemClock } from '../src/platform/clock.ts';
import { hostStore } from '../src/store/host.ts';

self.addEventListener(
  'message',
  ({ data }: MessageEvent<StoreWorkerStart>) => {
    expose(hostStore({ clock: systemClock, openFolder: originFolder, exit: endWorker }), data.port);
  },
  { once: true },
);
