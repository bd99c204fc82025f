/**
 * Tracks the last offer received from each engine. Messages of one engine arrive in order, those of different engines do not. So
 * a lookup for blocks that another engine offered names the offer that the store must have received first.
 */
import type { Clock } from '../engine/types.ts';
import type { OfferPlace } from '../transport/store-messages.ts';

/** An offer that has not arrived by then is taken as lost. Half of the time that engines wait for the answer, ms. */
const PATIENCE_MS = 1_000;

export class OffersSeen {
  readonly #clock: Pick<Clock, 'sleep'>;
  /** The last offer's number, by engine. */
  readonly #last = new Map<string, number>();
  readonly #waiting = new Set<OfferPlace & { over: AbortController }>();

  constructor(clock: Pick<Clock, 'sleep'>) {
    this.#clock = clock;
  }

  seen(engineId: string, offer: number): void {
    this.#last.set(engineId, Math.max(offer, this.#last.get(engineId) ?? 0));
    for (const one of this.#waiting) if (one.engineId === engineId && one.offer <= offer) one.over.abort();
  }

  /** The engine is gone. A new engine with the same name starts counting again. */
  gone(engineId: string): void {
    this.#last.delete(engineId);
    for (const one of this.#waiting) if (one.engineId === engineId) one.over.abort();
  }

  /** Resolves when this offer or a later one has been seen, when its engine is gone, or after PATIENCE_MS. */
  async until({ engineId, offer }: OfferPlace): Promise<void> {
    if ((this.#last.get(engineId) ?? 0) >= offer) return;
    const one = { engineId, offer, over: new AbortController() };
    this.#waiting.add(one);
    await this.#clock.sleep(PATIENCE_MS, one.over.signal);
    this.#waiting.delete(one);
  }
}
