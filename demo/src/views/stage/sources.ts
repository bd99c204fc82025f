/** The source of KV that an engine did not compute. No DOM. */
import type { BlockView, Role, SessionState, TransferView } from '../../session/types.ts';

type Moves = Pick<SessionState, 'storeTransfers' | 'transfers' | 'drawn'>;

/** Whether the content copied into a block of the drawn engine came from the store, not from the other engine. */
export function isFromStore({ storeTransfers, transfers, drawn }: Moves, role: Role, id: number): boolean {
  const engineId = drawn[role].value?.engineId;
  const last = (list: readonly TransferView[]): number =>
    list.findLast(({ to, pairs }) => to === engineId && pairs.some(([, at]) => at === id))?.startMs ?? -1;
  return storeTransfers.value.length > 0 && last(storeTransfers.value) > last(transfers.value);
}

/** The words that a copied block's KV was computed from, if they differ from the block's text; null if not or unknown. */
export function madeFrom(
  { transfers, drawn }: Pick<Moves, 'transfers' | 'drawn'>,
  role: Role,
  { id, origin, text }: BlockView,
): string | null {
  if (origin !== 'pulled' || text === null) return null;
  const engineId = drawn[role].value?.engineId;
  const copy = transfers.value.findLast(
    ({ to, pairs }) => to === engineId && pairs.some(([, at]) => at === id),
  );
  const said = copy?.said?.[copy.pairs.findIndex(([, at]) => at === id)] ?? null;
  // A partly filled block may have been continued here or in its source.
  return said === null || text.startsWith(said) || said.startsWith(text) ? null : said;
}
