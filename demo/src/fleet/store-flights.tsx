/** Saves and loads on their way between tiles and the store: a square each, drawn once it is known that they took place. */
import type { RefObject } from 'preact';
import { useMemo } from 'preact/hooks';
import type { StoreMove } from '../../../src/simulate/live/look.ts';
import { reducedMotion } from '../views/palette.ts';
import { type Frame, Surface } from '../views/surface.tsx';
import type { Fleet } from './fleet.ts';

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

interface Place {
  x: number;
  y: number;
}

/** `tiles`: has every tile, the store's too, by data-engine; this lies over it. */
export function StoreFlights({ fleet, tiles }: { fleet: Fleet; tiles: RefObject<HTMLElement | null> }) {
  const flights = useMemo(() => new Flights(), []);
  return (
    <div class="fleet-flights">
      <Surface
        name="fleet flights"
        heightFor={() => tiles.current?.clientHeight ?? 0}
        watch={() => void fleet.look.value}
        draw={(frame) => {
          flights.take(fleet.look.peek()?.store?.moves ?? []);
          return tiles.current !== null && flights.draw(frame, tiles.current);
        }}
      />
    </div>
  );
}

class Flights {
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

  /** True: some are still in the air. */
  draw({ context, palette, elapsedMs }: Frame, tiles: HTMLElement): boolean {
    for (const flight of this.#flights) flight.ageMs += elapsedMs;
    this.#flights = this.#flights.filter(({ ageMs }) => ageMs < FLIGHT_MS);
    if (this.#flights.length === 0) return false;
    const places = placesIn(tiles);
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

/** The middle of a tile's picture; asked for once a frame and tile. null: there is no such tile any more. */
function placesIn(tiles: HTMLElement): (engineId: string) => Place | null {
  const origin = tiles.getBoundingClientRect();
  const known = new Map<string, Place | null>();
  return (engineId) => {
    if (!known.has(engineId)) {
      const picture = tiles.querySelector(`[data-engine="${engineId}"] canvas`);
      const box = picture?.getBoundingClientRect() ?? null;
      known.set(
        engineId,
        box && { x: box.x - origin.x + box.width / 2, y: box.y - origin.y + box.height / 2 },
      );
    }
    return known.get(engineId)!;
  };
}
