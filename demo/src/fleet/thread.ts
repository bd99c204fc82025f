/** The page's side of the thread that simulates fleets. */
import { SCRIPT_LOST } from '../../../src/platform/browser.ts';
import type { LiveNews, LiveOrder } from '../../../src/simulate/live/protocol.ts';
import { findCode, loseCode } from '../session/fetch-code.ts';

export interface FleetThread {
  order(order: LiveOrder): void;
  end(): void;
}

/** `failed` is called at most once; nothing is heard after it. */
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
  // Its script has come. Not said again, since the script of a thread that starts later may be gone by then.
  worker.addEventListener('message', () => findCode('fleet'), { once: true });
  worker.addEventListener('message', ({ data }: MessageEvent<LiveNews>) => {
    if (data.kind === 'failed') broke(data.message);
    else heard(data);
  });
  worker.addEventListener('error', (event) => {
    event.preventDefault();
    if (!event.message) loseCode('fleet');
    broke(event.message || SCRIPT_LOST);
  });
  worker.addEventListener('messageerror', () => broke('one of its messages could not be read'));
  return { order: (order) => worker.postMessage(order), end };
}
