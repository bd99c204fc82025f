/** The store on the stage, with its state between frames. Fetched when there is a store. */
import { STORE_ADDRESS } from '../../../../src/config/connectors.ts';
import type { Role, SessionState } from '../../session/types.ts';
import type { StageLayout } from '../geometry.ts';
import type { Palette } from '../palette.ts';
import { letterOf } from './describe-block.ts';
import { drawnIds } from './direction.ts';
import type { StageLayer } from './draw-stage.ts';
import { drawStore, drawStoreFlights, layoutStore, type StoreFlight, type StoreModel } from './draw-store.ts';
import { Flights } from './flights.ts';

const STORE = STORE_ADDRESS.engineId;
const WAYS = (['prefill', 'decode'] as const).flatMap((role) =>
  [true, false].map((loads) => ({ role, loads })),
);

export class StoreLayer implements StageLayer {
  readonly #state: SessionState;
  readonly #ways = WAYS.map((way) => ({ ...way, flights: new Flights() }));

  constructor(state: SessionState) {
    this.#state = state;
  }

  advance(elapsedMs: number, still: boolean): boolean {
    const { storeTransfers, nowMs, endOf } = this.#state;
    const drawn = drawnIds(this.#state);
    let more = false;
    for (const { role, loads, flights } of this.#ways) {
      const own = storeTransfers
        .peek()
        .filter(({ from, to }) =>
          loads ? from === STORE && to === drawn[role] : from === drawn[role] && to === STORE,
        );
      more = flights.advance(own, nowMs(), elapsedMs, undefined, endOf) || more;
      if (still) flights.land();
    }
    return more && !still;
  }

  awaited(role: Role): ReadonlySet<number> {
    const loads = this.#ways.filter((way) => way.role === role && way.loads);
    return new Set(loads.flatMap(({ flights }) => [...flights.awaited()]));
  }

  draw(context: CanvasRenderingContext2D, stage: StageLayout, palette: Palette): void {
    const store = this.#state.store.peek();
    if (!store || !stage.store) return;
    const layout = layoutStore(stage.store, store, palette.least);
    const flights: StoreFlight[] = this.#ways.flatMap(({ role, loads, flights: own }) =>
      own.all.map((flight) => ({ ...flight, role, loads })),
    );
    const saves = this.#ways.filter(({ loads }) => !loads);
    const transfer = this.#state.storeTransfers.peek().at(-1);
    const model: StoreModel = {
      store,
      awaited: new Set(saves.flatMap((way) => [...way.flights.awaited()])),
      last: transfer ? { transfer, loads: transfer.from === STORE, letter: letterOf(transfer.side) } : null,
      newestTurn: Math.max(1, ...this.#state.turns.peek().map(({ turn }) => turn)),
    };
    drawStore(context, stage.store, layout, model, palette);
    drawStoreFlights(context, stage, stage.store, layout, flights, palette);
  }
}
