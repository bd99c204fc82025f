/** What engines saved to a store and loaded from it, taken from their spans. */
import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { Span } from '../../measure/spans/spans.ts';
import type { EngineRole } from '../../router/engine-client.ts';
import type { LiveStore, StoreMove } from './view.ts';

/** Moves in each look. */
const SHOWN = 24;

export class StoreMoves {
  readonly #originMs: number;
  readonly #moved = { prefill: { saved: 0, loaded: 0 }, decode: { saved: 0, loaded: 0 } };
  readonly #last: StoreMove[] = [];
  #number = 0;

  /** `originMs`: time of the clock that is 0 for the viewer. */
  constructor(originMs: number) {
    this.#originMs = originMs;
  }

  saw({ name, way, args, endMs }: Span): void {
    const saves = name === 'save';
    const loads = name === 'transfer' && way?.from === STORE_ADDRESS.engineId && args.outcome === 'done';
    const blocks = Number(args.blocks);
    if (!way || !(saves || loads) || blocks === 0) return;
    const engineId = saves ? way.from : way.to;
    this.#moved[roleOf(engineId)][saves ? 'saved' : 'loaded'] += blocks;
    this.#last.push({ number: ++this.#number, atMs: endMs - this.#originMs, engineId, loads, blocks });
    if (this.#last.length > SHOWN) this.#last.shift();
  }

  look(): Pick<LiveStore, 'moved' | 'moves'> {
    const { prefill, decode } = this.#moved;
    return { moved: { prefill: { ...prefill }, decode: { ...decode } }, moves: [...this.#last] };
  }
}

const roleOf = (engineId: string): EngineRole => (engineId.startsWith('decode') ? 'decode' : 'prefill');
