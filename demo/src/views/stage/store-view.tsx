/** The store's figures in words, below its drawing. */
import { STORE_ADDRESS } from '../../../../src/config/connectors.ts';
import type { SessionState, StoreView, TransferView } from '../../session/types.ts';
import { bytes, plural } from '../format.ts';
import { letterOf } from './describe-block.ts';

export { StoreLayer } from './store-layer.ts';

export function StoreFigures({ state }: { state: SessionState }) {
  const store = state.store.value;
  const last = state.storeTransfers.value.findLast(({ endMs }) => endMs !== null);
  return (
    store && (
      <>
        <p class="store-figures">{figuresInWords(store)}</p>
        <p class="visually-hidden" aria-live="polite">
          {last ? movedInWords(last) : ''}
        </p>
      </>
    )
  );
}

/** Announced once to screen readers. */
function movedInWords({ to, side, pairs, outcome }: TransferView): string {
  const letter = letterOf(side);
  const blocks = plural(pairs.length, 'block');
  if (to === STORE_ADDRESS.engineId) return `The store saved ${blocks} of ${letter}.`;
  return outcome === 'done'
    ? `${letter} loaded ${blocks} from the store.`
    : `${letter} got nothing from the store.`;
}

export function figuresInWords({ figures }: Pick<StoreView, 'figures'>): string {
  const { blocks, slots, blockBytes, lookups, hits, stored, evicted, twoHopBytes, queues, folder } = figures;
  const parts = [
    `Store: ${blocks} of ${plural(slots, 'block')} in memory (${bytes(blocks * blockBytes)})`,
    `${hits} of ${plural(lookups, 'requested block')} found`,
    `${stored} saved${evicted > 0 ? `, ${evicted} evicted` : ''}`,
    queues &&
      `queues: ${queues.small ?? 0} new, ${queues.main ?? 0} reused, ${queues.ghost ?? 0} remembered after eviction`,
    folder &&
      `folder: ${plural(folder.blocks, 'block')}, ${folder.read} read back${folder.broken > 0 ? `, ${folder.broken} broken and removed` : ''}`,
    `by two hops: ${bytes(twoHopBytes)}`,
  ];
  return `${parts.filter(Boolean).join('; ')}.`;
}
