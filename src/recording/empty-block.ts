/** Separate from events.ts, whose schemas are only needed to read a recording. */
import type { BlockView } from './events.ts';

/** A block without content. */
export const emptyBlock = (id: number): BlockView => ({
  id,
  state: id === 0 ? 'null' : 'free',
  origin: null,
  conversation: null,
  turn: null,
  author: null,
  index: null,
  tokens: 0,
  text: null,
  hash: null,
  refCount: 0,
  heldFor: null,
  heldUntilMs: null,
  evictions: 0,
});
