import type { EngineStart, EngineStarted, ServingApi } from '../../src/host/engine-api.ts';
import type { EngineEvent, EngineStats } from '../../src/host/engine-report.ts';
import { expose } from '../../src/host/rpc.ts';
import type { Platform } from '../../src/platform/types.ts';

/** A fake engine thread. Tests can end it, make it stop answering, or send its events. */
export interface Thread {
  name: string;
  running: boolean;
  /** While set, calls to it never settle. */
  stuck: boolean;
  abandoned: boolean;
  /** Engine ids of the peers that it was told have ended. */
  died: string[];
  end(): void;
  tell(event: EngineEvent): void;
}

export function platformOf(
  addPeer: (name: string) => void = () => {},
  starting: (name: string, start: EngineStart) => void = () => {},
) {
  const threads: Thread[] = [];
  const startEngineThread: Platform['startEngineThread'] = async (name) => {
    const { port1, port2 } = new MessageChannel();
    let onExit: (reason: string) => void = () => {};
    const thread: Thread = {
      name,
      running: true,
      stuck: false,
      abandoned: false,
      died: [],
      tell: () => {},
      end() {
        this.running = false;
        port1.close();
        onExit('it was ended');
      },
    };
    threads.push(thread);
    const answered = async <T>(answer: () => T): Promise<T> =>
      thread.stuck ? new Promise(() => {}) : answer();
    const serving: Partial<ServingApi> = {
      async start(start, events) {
        starting(name, start);
        thread.tell = (event) => events.postMessage(event);
        return {} as EngineStarted;
      },
      addPeer: () => answered(() => addPeer(name)),
      addRequest: () => answered(() => {}),
      releaseHolds: () => answered(() => {}),
      reconfigure: () => answered(() => {}),
      peerDied: async (engineId) => void thread.died.push(engineId),
      shutdown: () => answered(() => thread.end()),
    };
    const nothing = { running: 0, waiting: 0, waitingForRemote: 0, heldRequests: 0 } as EngineStats;
    expose({ serving, inspection: { stats: () => answered(() => nothing) } }, port2);
    return {
      port: port1,
      onExit(listener) {
        onExit = listener;
      },
      abandon() {
        thread.abandoned = true;
        thread.running = false;
        port1.close();
      },
    };
  };
  return { threads, platform: { startEngineThread } as Partial<Platform> as Platform };
}
