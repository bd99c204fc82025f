/** A layer over the tiles that shows saves and loads between them and the store. */
import type { RefObject } from 'preact';
import { useMemo } from 'preact/hooks';
import { Surface } from '../views/surface.tsx';
import type { Fleet } from './fleet.ts';
import { type Place, StoreMoves } from './store-moves.ts';

/** `tiles`: the element with all tiles, found by data-engine ('store' for the store); this layer covers it. */
export function StoreFlights({ fleet, tiles }: { fleet: Fleet; tiles: RefObject<HTMLElement | null> }) {
  const flights = useMemo(() => new StoreMoves(), []);
  return (
    <div class="fleet-flights">
      <Surface
        name="fleet flights"
        heightFor={() => tiles.current?.clientHeight ?? 0}
        watch={() => void fleet.look.value}
        draw={(frame) => {
          flights.take(fleet.look.peek()?.store?.moves ?? []);
          return tiles.current !== null && flights.draw(frame, placesIn(tiles.current));
        }}
      />
    </div>
  );
}

/** The centre of a tile's canvas, looked up once per frame and tile; null if the tile is gone. */
function placesIn(tiles: HTMLElement): (name: string) => Place | null {
  const known = new Map<string, Place | null>();
  return (name) => {
    if (!known.has(name)) {
      const picture = tiles.querySelector(`[data-engine="${name}"] canvas`);
      const box = picture?.getBoundingClientRect() ?? null;
      const origin = tiles.getBoundingClientRect();
      known.set(name, box && { x: box.x - origin.x + box.width / 2, y: box.y - origin.y + box.height / 2 });
    }
    return known.get(name)!;
  };
}
