/** Bytes alone: the page's turns say less of a transfer. */
interface LoadedTurn {
  pulled_tokens: number;
  transfer: { d_to_p: { bytes: number }; store_to_p?: { bytes: number } | undefined };
}

/** Of the prompt's tokens that were loaded, those that the store gave; a token has as many bytes wherever it lies. */
export const storedTokens = ({ pulled_tokens, transfer }: LoadedTurn): number =>
  shareOfStore(pulled_tokens, { store: transfer.store_to_p?.bytes ?? 0, engines: transfer.d_to_p.bytes });

/** The same of any prompt; `read`: bytes, by whom they were read from. */
export const shareOfStore = (
  loaded: number,
  { store, engines }: { store: number; engines: number },
): number => (store === 0 ? 0 : Math.round((loaded * store) / (store + engines)));
