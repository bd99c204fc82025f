/** Entry of an engine's thread in a browser. */

import { EngineHost } from '../src/host/engine-host.ts';
import { expose } from '../src/host/rpc.ts';
import { browserPlatform, GOODBYE, type WorkerStart } from '../src/platform/browser.ts';

const files = import.meta.glob<string>('../shaders/**/*.wgsl', {
  query: '?raw',
  import: 'default',
  eager: true,
});
const shaders = new Map(
  Object.entries(files).map(([path, text]) => [path.replace(/^.*\/shaders\/(.*)\.wgsl$/, '$1'), text]),
);

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
    expose(new EngineHost(browserPlatform(data.models, shaders), exit), data.port);
  },
  { once: true },
);
