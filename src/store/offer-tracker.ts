/**
 * Tracks the last offer received from each engine. Messages of one engine arrive in order, those of different engines do not. So
 * a lookup for blocks that another engine offered names the offer that the store must have received first.
 */
import type { Clock } from '../engine/types.ts';
import type { OfferPlace } from '../transport/store-messages.ts';

/** An offer that has not arrived by then is taken as lost. Half of the time that engines wait for the answer, ms. */
const PATIENCE_MS = 1_000;

export class OfferTracker {
  readonly #clock: Pick<Clock, 'sleep'>;
  /** The last offer's number, by engine. */
  readonly #last = new Map<string, number>();
  readonly #waiting = new Set<OfferPlace & { over: AbortController }>();

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock;
  }

  received(engineId: string, offer: number): void {
    this.#last.set(engineId, Math.max(offer, this.#last.get(engineId) ?? 0));
    for (const waiting of this.#waiting)
      if (waiting.engineId === engineId && waiting.offer <= offer) waiting.over.abort();
  }

  /** The engine is gone. A new engine with the same name starts counting again. */
  engineGone(engineId: string): void {
    this.#last.delete(engineId);
    for (const waiting of this.#waiting) if (waiting.engineId === engineId) waiting.over.abort();
  }

  /** Every engine starts counting again. */
  clear(): void {
    this.#last.clear();
  }

  /** Resolves when this offer or a later one has been seen, when its engine is gone, or after PATIENCE_MS. */
  async until({ engineId, offer }: OfferPlace): Promise<void> {
    if ((this.#last.get(engineId) ?? 0) >= offer) return;
    const waiting = { engineId, offer, over: new AbortController() };
    this.#waiting.add(waiting);
    await this.#clock.sleep(PATIENCE_MS, waiting.over.signal);
    this.#waiting.delete(waiting);
  }
}
