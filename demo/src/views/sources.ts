/** Where KV came from that an engine did not compute. No DOM. */
import type { Role, SessionState, TransferView, TurnReport } from '../session/types.ts';

/** Of the prompt's tokens that were loaded, those that the store gave; a token has as many bytes wherever it lies. */
export function storedTokens({ pulled_tokens, transfer }: TurnReport): number {
  const stored = transfer.store_to_p?.bytes ?? 0;
  return stored === 0 ? 0 : Math.round((pulled_tokens * stored) / (stored + transfer.d_to_p.bytes));
}

type Moves = Pick<SessionState, 'storeTransfers' | 'transfers' | 'drawn'>;

/** Whether what was copied into a block of the drawn engine came from the store, not from the other engine. */
export function isFromStore({ storeTransfers, transfers, drawn }: Moves, role: Role, id: number): boolean {
  const engineId = drawn[role].value?.engineId;
  const last = (list: readonly TransferView[]): number =>
    list.findLast(({ to, pairs }) => to === engineId && pairs.some(([, at]) => at === id))?.startMs ?? -1;
  return storeTransfers.value.length > 0 && last(storeTransfers.value) > last(transfers.value);
}
