/** Which engines the turns under way need: those that compute for them, and who holds KV that they were offered. */
export class TurnsAt {
  readonly #counts = new Map<string, number>();

  /** Returns how the turn leaves them, which is safe to call twice. */
  enter(engineIds: readonly string[]): () => void {
    for (const id of engineIds) this.#counts.set(id, this.at(id) + 1);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      for (const id of engineIds) {
        const count = this.at(id) - 1;
        if (count > 0) this.#counts.set(id, count);
        else this.#counts.delete(id);
      }
    };
  }

  at(engineId: string): number {
    return this.#counts.get(engineId) ?? 0;
  }
}
