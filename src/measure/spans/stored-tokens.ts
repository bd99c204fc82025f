/** Only a part, because the page's turns contain less about a transfer. */
interface LoadedTurn {
  pulled_tokens: number;
  transfer: {
    d_to_p: { bytes: number };
    store_to_p?: { bytes: number; tokens?: number | undefined } | undefined;
  };
}

/**
 * Loaded prompt tokens that came from the store. Older reports have only bytes, of which a token has equally many
 * wherever it comes from unless the model has windows.
 */
export function storedTokens({ pulled_tokens, transfer }: LoadedTurn): number {
  const { d_to_p, store_to_p: load } = transfer;
  if (!load || load.bytes === 0) return 0;
  const tokens = load.tokens ?? Math.round((pulled_tokens * load.bytes) / (load.bytes + d_to_p.bytes));
  return Math.min(pulled_tokens, tokens);
}
