/** What the page and its workers say to each other, beside what goes through a worker's port. */
import type { ModelFiles } from './blobs.ts';

/** What a store's worker is sent first. */
export interface StoreWorkerStart {
  port: MessagePort;
}

/** The same of a new engine's. */
export interface WorkerStart extends StoreWorkerStart {
  models: ReadonlyMap<string, ModelFiles>;
}

/** What a worker says last. */
export const GOODBYE = 'closed';

/** In a worker: the answer to shutdown() leaves in this turn of the event loop; the thread ends in a later one. */
export function endWorker(): void {
  setTimeout(() => {
    self.postMessage(GOODBYE);
    self.close();
  }, 20);
}
