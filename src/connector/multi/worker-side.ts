/** Worker side of a MultiConnector: forwards calls, and reports a request once all children involved are done with it. */
import type { ConnectorOutput, KvConnectorWorker } from '../../engine/kv-connector.ts';
import type { MultiMetadata } from './scheduler-side.ts';

export class MultiWorkerSide implements KvConnectorWorker<MultiMetadata> {
  readonly #children: readonly KvConnectorWorker[];
  /** How many children have yet to report each request. Default: 1. */
  readonly #loads = new Map<string, number>();
  readonly #sends = new Map<string, number>();

  constructor(children: readonly KvConnectorWorker[]) {
    this.#children = children;
  }

  startLoadKv({ metas, loads, sends }: MultiMetadata): void {
    for (const [requestId, count] of loads) this.#loads.set(requestId, count);
    for (const [requestId, count] of sends) this.#sends.set(requestId, count);
    for (const [i, child] of this.#children.entries()) child.startLoadKv(metas[i]);
  }

  getFinished(): ConnectorOutput {
    const outputs = this.#children.map((child) => child.getFinished());
    return {
      finishedSending: outputs.flatMap((one) => one.finishedSending).filter((id) => isLast(this.#sends, id)),
      finishedRecving: outputs.flatMap((one) => one.finishedRecving).filter((id) => isLast(this.#loads, id)),
      failedRecving: outputs.flatMap((one) => one.failedRecving),
      // A hold whose blocks another child kept may now be dropped.
      changed: outputs.some((one) => one.changed || one.finishedSending.length > 0),
    };
  }

  /** Whether more than one child keeps the request's blocks. */
  keptTwice(requestId: string): boolean {
    return (this.#sends.get(requestId) ?? 1) > 1;
  }

  dueMs(): number | null {
    const due = this.#children.map((child) => child.dueMs?.() ?? null).filter((ms) => ms !== null);
    return due.length > 0 ? Math.min(...due) : null;
  }

  async waitForChange(signal: AbortSignal): Promise<void> {
    const changed = new AbortController();
    const end = () => changed.abort();
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    await Promise.race(this.#children.map((child) => child.waitForChange(changed.signal)));
    signal.removeEventListener('abort', end);
    changed.abort();
  }
}

function isLast(counts: Map<string, number>, requestId: string): boolean {
  const left = (counts.get(requestId) ?? 1) - 1;
  if (left > 0) counts.set(requestId, left);
  else counts.delete(requestId);
  return left <= 0;
}
