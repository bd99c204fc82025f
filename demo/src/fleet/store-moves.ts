/** Animates saves and loads between engines and the store: one square each, drawn after they took place. */
import type { StoreMove } from '../../../src/simulate/live/view.ts';
import type { Frame } from '../views/frame.ts';
import { reducedMotion } from '../views/palette.ts';

/** Duration of a flight, wall time. */
const FLIGHT_MS = 700;
/** Moves that are reported together leave this much apart. */
const APART_MS = 30;
const MOST = 32;
const SIZE = 9;

interface Flight extends StoreMove {
  /** Negative before it leaves. */
  ageMs: number;
}

export interface Place {
  x: number;
  y: number;
}

export class StoreMoves {
  /** The number of the last known move. */
  #last = 0;
  #flights: Flight[] = [];

  take(moves: readonly StoreMove[]): void {
    const newest = moves.at(-1)?.number ?? 0;
    // A new store numbers its moves from 1.
    if (newest < this.#last) this.#last = 0;
    const news = moves.filter(({ number }) => number > this.#last);
    this.#last = newest;
    if (reducedMotion.peek()) return;
    const room = Math.max(0, MOST - this.#flights.length);
    for (const [i, move] of news.slice(0, room).entries())
      this.#flights.push({ ...move, ageMs: -APART_MS * i });
  }

  /** Returns true while some are in flight. `places`: the place of an engine or of 'store'; null if the tile is gone. */
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
