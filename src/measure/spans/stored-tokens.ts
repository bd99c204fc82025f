/** Only bytes, because the page's turns contain less about a transfer. */
interface LoadedTurn {
  pulled_tokens: number;
  transfer: { d_to_p: { bytes: number }; store_to_p?: { bytes: number } | undefined };
}

/** Loaded prompt tokens that came from the store, computed from bytes: a token has the same size everywhere. */
export const storedTokens = ({ pulled_tokens, transfer }: LoadedTurn): number =>
  shareOfStore(pulled_tokens, { store: transfer.store_to_p?.bytes ?? 0, engines: transfer.d_to_p.bytes });

/** The same for any prompt; `read`: bytes by source. */
export const shareOfStore = (
  loaded: number,
  { store, engines }: { store: number; engines: number },
): number => (store === 0 ? 0 : Math.round((loaded * store) / (store + engines)));
