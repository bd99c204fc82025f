/** Restarts engines that ended, in the background, for as long as the server runs. */
import { messageOf } from '../errors.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import type { ServerLog } from './http/log.ts';

const FIRST_PAUSE_MS = 200;
/** The pause doubles whenever an engine cannot be restarted, up to this. */
const LONGEST_PAUSE_MS = 30_000;

export interface KeepAlive {
  /** Resolves when no restart is in progress. */
  stop(): Promise<void>;
}

export function keepAlive(
  cluster: Pick<EngineCluster, 'onNotice' | 'engines' | 'revive'>,
  log: ServerLog,
): KeepAlive {
  let stopped = false;
  let reviving: Promise<void> | null = null;
  let wake: () => void = () => {};
  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });

  const revive = async () => {
    for (let ms = FIRST_PAUSE_MS; !stopped; ) {
      await pause(ms);
      if (stopped || cluster.engines.every(({ dead }) => !dead)) return;
      try {
        await cluster.revive();
        ms = FIRST_PAUSE_MS;
      } catch (error) {
        if (!stopped) log.error(`an engine could not be restarted: ${(error as Error).message}`);
        ms = Math.min(2 * ms, LONGEST_PAUSE_MS);
      }
    }
  };
  const begin = (engineId: string, message: string): void => {
    log.error(`${engineId}: ${message}; restarting it`);
    reviving ??= revive().finally(() => {
      reviving = null;
    });
  };
  const stopListening = cluster.onNotice((notice) => {
    if (notice.kind === 'dead' && !stopped) begin(notice.engineId, notice.message);
    if (notice.kind === 'alive' && notice.replaces !== null)
      log.note(`${notice.replaces} was restarted as ${notice.engineId}, with an empty cache`);
  });
  // Engines that ended before this listener was added send no further notice.
  for (const { engineId, dead, ended } of cluster.engines) if (dead) begin(engineId, messageOf(ended));
  return {
    async stop() {
      stopped = true;
      stopListening();
      wake();
      await reviving;
    },
  };
}
