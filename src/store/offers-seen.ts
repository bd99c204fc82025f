/**
 * How far the store has heard of what each engine offers. An engine's messages come in order, two engines' in any: who asks for
 * what another offered says up to which offer the store must have heard first.
 */
import type { Clock } from '../engine/types.ts';
import type { OfferPlace } from '../transport/store-messages.ts';

/** An offer that has not come by then is lost: half of what whoever asks waits for the answer at most. */
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

  /** Nothing more of it comes; another of its name counts anew. */
  gone(engineId: string): void {
    this.#last.delete(engineId);
    for (const one of this.#waiting) if (one.engineId === engineId) one.over.abort();
  }

  /** Resolves when that offer, or a later one, was seen, its engine is gone, or it takes too long. */
  async until({ engineId, offer }: OfferPlace): Promise<void> {
    if ((this.#last.get(engineId) ?? 0) >= offer) return;
    const one = { engineId, offer, over: new AbortController() };
    this.#waiting.add(one);
    await this.#clock.sleep(PATIENCE_MS, one.over.signal);
    this.#waiting.delete(one);
  }
}
