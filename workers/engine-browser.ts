/** Entry of an engine's thread in a browser. */
import { hostEngine } from '../src/host/engine-host.ts';
import { expose } from '../src/host/rpc.ts';
import { browserPlatform, GOODBYE, type WorkerStart } from '../src/platform/browser.ts';
import { systemClock } from '../src/platform/clock.ts';
import { nextTask } from '../src/platform/next-task.ts';

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
    const platform = browserPlatform(data.models, shaders);
    expose(hostEngine({ platform, clock: systemClock, nextTask, exit }), data.port);
  },
  { once: true },
);
