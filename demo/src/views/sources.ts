/** Where a turn's KV came from that P did not compute. No DOM. */
import type { TurnReport } from '../session/types.ts';

/** Of the prompt's tokens that were loaded, those that the store gave; a token has as many bytes wherever it lies. */
export function storedTokens({ pulled_tokens, transfer }: TurnReport): number {
  const stored = transfer.store_to_p?.bytes ?? 0;
  return stored === 0 ? 0 : Math.round((pulled_tokens * stored) / (stored + transfer.d_to_p.bytes));
}
