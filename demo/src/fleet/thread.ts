/** A thread that simulates fleets, as the page sees it. */
import type { LiveNews, LiveOrder } from '../../../src/simulate/live/protocol.ts';

export interface FleetThread {
  order(order: LiveOrder): void;
  end(): void;
}

/** `failed`: told once, when it will say nothing more. */
export function startThread(heard: (news: LiveNews) => void, failed: (why: string) => void): FleetThread {
  const worker = new Worker(new URL('../../../workers/fleet-browser.ts', import.meta.url), {
    type: 'module',
    name: 'fleet',
  });
  const end = () => worker.terminate();
  const broke = (why: string) => {
    end();
    failed(why);
  };
  worker.addEventListener('message', ({ data }: MessageEvent<LiveNews>) => {
    if (data.kind === 'failed') broke(data.message);
    else heard(data);
  });
  worker.addEventListener('error', (event) => {
    event.preventDefault();
    broke(event.message || 'its script could not be loaded');
  });
  worker.addEventListener('messageerror', () => broke('a message of it could not be read'));
  return { order: (order) => worker.postMessage(order), end };
}
