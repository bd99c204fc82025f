/** Entry of an engine's thread in a browser. */
import { expose } from '../src/cluster/rpc.ts';
import { browserPlatform, GOODBYE, type WorkerStart } from '../src/platform/browser.ts';
import { EngineHost } from './engine-host.ts';

// The answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one.
const exit = (): void => {
  setTimeout(() => {
    self.postMessage(GOODBYE);
    self.close();
  }, 20);
};

self.addEventListener(
  'message',
  ({ data }: MessageEvent<WorkerStart>) => {
    expose(new EngineHost(browserPlatform(data.models), exit), data.port);
  },
  { once: true },
);
