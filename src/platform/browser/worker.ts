/** Messages between the page and its workers, other than those through a worker's port. */
import type { ModelFiles } from './blobs.ts';

/** First message to a store's worker. */
export interface StoreWorkerStart {
  port: MessagePort;
}

/** First message to an engine's worker. */
export interface WorkerStart extends StoreWorkerStart {
  models: ReadonlyMap<string, ModelFiles>;
}

/** A worker's last message. */
export const GOODBYE = 'closed';

/**
 * Runs in a worker. The reply to shutdown() is sent in this turn of the event loop, so the worker closes in a later
 * one.
 */
export function endWorker(): void {
  setTimeout(() => {
    self.postMessage(GOODBYE);
    self.close();
  }, 20);
}
