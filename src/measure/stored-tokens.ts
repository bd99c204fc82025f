/** Bytes alone: the page's turns say less of a transfer. */
interface LoadedTurn {
  pulled_tokens: number;
  transfer: { d_to_p: { bytes: number }; store_to_p?: { bytes: number } | undefined };
}

/** Of the prompt's tokens that were loaded, those that the store gave; a token has as many bytes wherever it lies. */
export function storedTokens({ pulled_tokens, transfer }: LoadedTurn): number {
  const stored = transfer.store_to_p?.bytes ?? 0;
  return stored === 0 ? 0 : Math.round((pulled_tokens * stored) / (stored + transfer.d_to_p.bytes));
}
