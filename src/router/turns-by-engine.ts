/** Counts turns (or requests of an engine's own port) by engine, from when they enter it until they leave it. */
export class TurnsByEngine {
  readonly #counts = new Map<string, number>();

  /** Returns a function with which the turn leaves the engines; it is safe to call twice. */
  enter(engineIds: readonly string[]): () => void {
    for (const id of engineIds) this.add(id);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      for (const id of engineIds) this.remove(id);
    };
  }

  add(engineId: string): void {
    this.#counts.set(engineId, this.at(engineId) + 1);
  }

  remove(engineId: string): void {
    const count = this.at(engineId) - 1;
    if (count > 0) this.#counts.set(engineId, count);
    else this.#counts.delete(engineId);
  }

  at(engineId: string): number {
    return this.#counts.get(engineId) ?? 0;
  }
}
