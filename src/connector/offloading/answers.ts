/** What the store answered, from the worker side that hears it to the scheduler side that decides by it. One thread has both. */
import type { BlockId } from '../../engine/types.ts';

export class StoreAnswers {
  readonly #found = new Map<string, readonly BlockId[]>();
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
  answer(leaseId: string, blockIds: readonly BlockId[]): boolean {
    if (!this.#awaited.has(leaseId)) return false;
    this.#awaited.delete(leaseId);
    this.#found.set(leaseId, blockIds);
    return true;
  }

  /** The store's blocks from the sequence's first on; null: no answer yet. */
  of(leaseId: string): readonly BlockId[] | null {
    return this.#found.get(leaseId) ?? null;
  }
}
