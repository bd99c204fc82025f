/** Entry point of the thread that simulates the page's larger fleets. */
import { systemClock } from '../src/platform/clock.ts';
import { nextTask } from '../src/platform/next-task.ts';
import { LiveHost } from '../src/simulate/live/host.ts';
import type { LiveNews, LiveOrder } from '../src/simulate/live/protocol.ts';

const host = new LiveHost({
  clock: systemClock,
  nextTask: (run) => void nextTask().then(run),
  tell: (news: LiveNews) => self.postMessage(news),
});
self.addEventListener('message', ({ data }: MessageEvent<LiveOrder>) => host.order(data));
