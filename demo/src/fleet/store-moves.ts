/** Saves and loads on their way between engines and the store: a square each, drawn once it is known that they took place. */
import type { StoreMove } from '../../../src/simulate/live/look.ts';
import type { Frame } from '../views/frame.ts';
import { reducedMotion } from '../views/palette.ts';

/** From one end to the other, of the wall's clock. */
const FLIGHT_MS = 700;
/** Those that are told together leave one after the other. */
const APART_MS = 30;
const MOST = 32;
const SIZE = 9;

interface Flight extends StoreMove {
  /** Below 0: it has not left yet. */
  ageMs: number;
}

export interface Place {
  x: number;
  y: number;
}

export class StoreMoves {
  /** The number of the last one that is known. */
  #last = 0;
  #flights: Flight[] = [];

  take(moves: readonly StoreMove[]): void {
    const newest = moves.at(-1)?.number ?? 0;
    // Another store: its numbers begin at 1.
    if (newest < this.#last) this.#last = 0;
    const news = moves.filter(({ number }) => number > this.#last);
    this.#last = newest;
    if (reducedMotion.peek()) return;
    const room = Math.max(0, MOST - this.#flights.length);
    for (const [i, move] of news.slice(0, room).entries())
      this.#flights.push({ ...move, ageMs: -APART_MS * i });
  }

  /** True: some are still in the air. `places`: of an engine, or of 'store'; null: there is no such tile any more. */
  draw({ context, palette, elapsedMs }: Frame, places: (name: string) => Place | null): boolean {
    for (const flight of this.#flights) flight.ageMs += elapsedMs;
    this.#flights = this.#flights.filter(({ ageMs }) => ageMs < FLIGHT_MS);
    if (this.#flights.length === 0) return false;
    const store = places('store');
    context.fillStyle = palette.store;
    context.strokeStyle = palette.surface;
    context.lineWidth = 1.5;
    for (const { engineId, loads, ageMs } of this.#flights) {
      const engine = places(engineId);
      if (!store || !engine || ageMs < 0) continue;
      const [from, to] = loads ? [store, engine] : [engine, store];
      const share = eased(ageMs / FLIGHT_MS);
      const x = from.x + share * (to.x - from.x) - SIZE / 2;
      const y = from.y + share * (to.y - from.y) - SIZE / 2;
      context.fillRect(x, y, SIZE, SIZE);
      context.strokeRect(x, y, SIZE, SIZE);
    }
    return true;
  }
}

const eased = (share: number): number => share * share * (3 - 2 * share);
