/**
 * Counts the turns that this router sent to each engine and that have not ended, without asking the engines. Exact,
 * where a scraped metric lags. Counts what its own policy planned; has no clock.
 */
import type { RoutingEvent } from '../plan.ts';

export interface SentThere {
  /** Turns that wait for prefill there or are being prefilled; tokens that they have to prefill. */
  prefills: number;
  prefillTokens: number;
  /** Turns that will be decoded there and are still being prefilled, there or elsewhere. */
  pendingDecodes: number;
  /** Turns that are or will be decoded there; tokens of their prompts. */
  decodes: number;
  decodeTokens: number;
}

const NOTHING: Readonly<SentThere> = {
  prefills: 0,
  prefillTokens: 0,
  pendingDecodes: 0,
  decodes: 0,
  decodeTokens: 0,
};

interface Turn {
  prefill: string;
  decode: string;
  prefillTokens: number;
  decodeTokens: number;
  prefilling: boolean;
}

export class UnderWay {
  readonly #turns = new Map<number, Turn>();
  readonly #engines = new Map<string, SentThere>();
  readonly #tokensToPrefill: (planned: Extract<RoutingEvent, { kind: 'planned' }>) => number;

  /** `tokensToPrefill`: how many tokens of a planned prompt count as work. Default: all. */
  constructor(tokensToPrefill: (planned: Extract<RoutingEvent, { kind: 'planned' }>) => number = all) {
    this.#tokensToPrefill = tokensToPrefill;
  }

  /** Valid until the next event. */
  at(engineId: string): Readonly<SentThere> {
    return this.#engines.get(engineId) ?? NOTHING;
  }

  observe(event: RoutingEvent): void {
    if (event.kind === 'planned') this.#planned(event);
    else if (event.kind === 'prefilled' || event.kind === 'first token') this.#prefilled(event.number);
    else if (event.kind === 'ended') this.#ended(event.number);
  }

  #planned(event: Extract<RoutingEvent, { kind: 'planned' }>): void {
    const { number, decode, promptTokens } = event;
    this.#ended(number);
    const turn: Turn = {
      prefill: event.prefill ?? decode,
      decode,
      prefillTokens: this.#tokensToPrefill(event),
      decodeTokens: promptTokens,
      prefilling: true,
    };
    this.#turns.set(number, turn);
    this.#count(turn.prefill, { prefills: 1, prefillTokens: turn.prefillTokens });
    this.#count(decode, { pendingDecodes: 1, decodes: 1, decodeTokens: turn.decodeTokens });
  }

  #prefilled(number: number): void {
    const turn = this.#turns.get(number);
    if (!turn?.prefilling) return;
    turn.prefilling = false;
    this.#count(turn.prefill, { prefills: -1, prefillTokens: -turn.prefillTokens });
    this.#count(turn.decode, { pendingDecodes: -1 });
  }

  #ended(number: number): void {
    this.#prefilled(number);
    const turn = this.#turns.get(number);
    if (!turn) return;
    this.#turns.delete(number);
    this.#count(turn.decode, { decodes: -1, decodeTokens: -turn.decodeTokens });
  }

  /** Engines with nothing under way are removed; ids of ended engines never come back. */
  #count(engineId: string, change: Partial<SentThere>): void {
    const at = this.#engines.get(engineId) ?? { ...NOTHING };
    for (const key of Object.keys(change) as (keyof SentThere)[]) at[key] += change[key]!;
    if (at.prefills === 0 && at.decodes === 0) this.#engines.delete(engineId);
    else this.#engines.set(engineId, at);
  }
}

const all = ({ promptTokens }: { promptTokens: number }) => promptTokens;
