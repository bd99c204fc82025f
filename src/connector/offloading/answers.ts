/** Passes the store's answers from the worker side, which receives them, to the scheduler side. Both are in one thread. */
import type { BlockIds } from '../../engine/types.ts';

export class StoreAnswers {
  readonly #answers = new Map<string, BlockIds>();
  /** Leases for which a request awaits the answer. Answers for other leases are released. */
  readonly #awaited = new Set<string>();

  await(leaseId: string): void {
    this.#awaited.add(leaseId);
  }

  forget(leaseId: string): void {
    this.#awaited.delete(leaseId);
    this.#answers.delete(leaseId);
  }

  /** Records an answer. False if it is not awaited: the request is gone, or it was answered before. */
  answer(leaseId: string, blockIds: BlockIds): boolean {
    if (!this.#awaited.has(leaseId)) return false;
    this.#awaited.delete(leaseId);
    this.#answers.set(leaseId, blockIds);
    return true;
  }

  /** The store's blocks by group, from the sequence's first on; [] if it has none, null if there is no answer yet. */
  of(leaseId: string): BlockIds | null {
    return this.#answers.get(leaseId) ?? null;
  }
}
