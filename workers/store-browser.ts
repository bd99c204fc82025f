/** Entry of a store's thread in a browser. */
import { expose } from '../src/host/rpc.ts';
import { privateFolder } from '../src/platform/browser/store-folder.ts';
import { GOODBYE, type StoreWorkerStart } from '../src/platform/browser.ts';
import { systemClock } from '../src/platform/clock.ts';
import { hostStore } from '../src/store/host.ts';

// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => {
  setTimeout(() => {
    self.postMessage(GOODBYE);
    self.close();
  }, 20);
};

self.addEventListener(
  'message',
  ({ data }: MessageEvent<StoreWorkerStart>) =>
    expose(hostStore({ clock: systemClock, openFolder: privateFolder, exit }), data.port),
  { once: true },
);
