/** What the store answered, from the worker side that hears it to the scheduler side that decides by it. One thread has both. */
import type { BlockIds } from '../../engine/types.ts';

export class StoreAnswers {
  readonly #found = new Map<string, BlockIds>();
  /** Leases whose request waits for the answer; what comes for others is released. */
  readonly #awaited = new Set<string>();

  await(leaseId: string): void {
    this.#awaited.add(leaseId);
  }

  forget(leaseId: string): void {
    this.#awaited.delete(leaseId);
    this.#found.delete(leaseId);
  }

  /** False: nobody waits for it any more. The first answer counts. */
  answer(leaseId: string, blockIds: BlockIds): boolean {
    if (!this.#awaited.has(leaseId)) return false;
    this.#awaited.delete(leaseId);
    this.#found.set(leaseId, blockIds);
    return true;
  }

  /** The store's blocks by group, from the sequence's first on; no lists: it has none. null: no answer yet. */
  of(leaseId: string): BlockIds | null {
    return this.#found.get(leaseId) ?? null;
  }
}
