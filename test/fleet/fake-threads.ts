import type { EngineStart, EngineStarted, ServingApi } from '../../src/host/engine-api.ts';
import type { EngineEvent } from '../../src/host/engine-report.ts';
import { expose } from '../../src/host/rpc.ts';
import type { Platform } from '../../src/platform/types.ts';

/** Threads without engines: what each was asked, and how it is made to end. */
export interface Thread {
  name: string;
  running: boolean;
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
      tell: () => {},
      end() {
        this.running = false;
        port1.close();
        onExit('it was ended');
      },
    };
    threads.push(thread);
    const serving: Partial<ServingApi> = {
      async start(start, events) {
        starting(name, start);
        thread.tell = (event) => events.postMessage(event);
        return {} as EngineStarted;
      },
      addPeer: async () => addPeer(name),
      peerDied: async () => {},
      shutdown: async () => thread.end(),
    };
    expose({ serving }, port2);
    return {
      port: port1,
      onExit(listener) {
        onExit = listener;
      },
    };
  };
  return { threads, platform: { startEngineThread } as Partial<Platform> as Platform };
}
