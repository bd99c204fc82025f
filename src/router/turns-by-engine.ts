/** Counts turns by engine, from when they enter it until they leave it. */
export class TurnsByEngine {
  readonly #counts = new Map<string, number>();

  /** Returns a function with which the turn leaves the engines; it is safe to call twice. */
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
