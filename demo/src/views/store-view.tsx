/** The store in words and figures, below its drawing; and what draws it. */
import type { SessionState, StoreView } from '../session/types.ts';
import { bytes, plural } from './format.ts';

export { StoreLayer } from './store-layer.ts';

export function StoreFigures({ state }: { state: SessionState }) {
  const store = state.store.value;
  return store && <p class="store-figures">{figuresInWords(store)}</p>;
}

export function figuresInWords({ figures }: Pick<StoreView, 'figures'>): string {
  const { blocks, slots, blockBytes, lookups, hits, stored, evicted, twoHopBytes, queues, folder } = figures;
  const parts = [
    `Store: ${blocks} of ${plural(slots, 'block')} in memory (${bytes(blocks * blockBytes)})`,
    `asked for ${plural(lookups, 'block')}, it had ${hits}`,
    `${stored} saved${evicted > 0 ? `, ${evicted} evicted` : ''}`,
    queues &&
      `queues: ${queues.small ?? 0} new, ${queues.main ?? 0} used again, ${queues.ghost ?? 0} remembered`,
    folder &&
      `folder: ${plural(folder.blocks, 'block')}, ${folder.read} read back${folder.broken > 0 ? `, ${folder.broken} broken and removed` : ''}`,
    `by two hops: ${bytes(twoHopBytes)}`,
  ];
  return `${parts.filter(Boolean).join('; ')}.`;
}
