/** Entry point of an engine's thread in a browser. */
import { hostEngine } from '../src/host/engine-host.ts';
import { expose } from '../src/host/rpc.ts';
import { endWorker, type WorkerStart } from '../src/platform/browser/worker.ts';
import { browserPlatform } from '../src/platform/browser.ts';
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

self.addEventListener(
  'message',
  ({ data }: MessageEvent<WorkerStart>) => {
    const platform = browserPlatform(data.models, shaders);
    expose(hostEngine({ platform, clock: systemClock, nextTask, exit: endWorker }), data.port);
  },
  { once: true },
);
