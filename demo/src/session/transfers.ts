/** Transfer views from events: transfers between engines, and loads from and saves to the store. */
import type { Signal } from '@preact/signals';
import { STORE_ADDRESS } from '../../../src/config/connectors.ts';
import type { SessionEvent, Span, TransferView } from './types.ts';

const MOST_TRANSFERS = 64;

/** Between an engine and the store, not between two engines. */
export const isOfStore = ({ from, to }: { from: string; to: string }): boolean =>
  from === STORE_ADDRESS.engineId || to === STORE_ADDRESS.engineId;

type Started = Extract<SessionEvent, { kind: 'transfer_started' }>;
type Chunk = Extract<SessionEvent, { kind: 'transfer_chunk' }>;
type Ended = Extract<SessionEvent, { kind: 'transfer_ended' }>;

export function withTransfer(
  before: readonly TransferView[],
  event: Started | Chunk | Ended,
  saidIn: (engineId: string, block: number) => string | null = () => null,
): readonly TransferView[] {
  const same = (transfer: TransferView) => transfer.requestId === event.requestId && transfer.endMs === null;
  if (event.kind === 'transfer_ended') {
    const { from, to, outcome, message, stagesMs, throttled, bytes, movingMs = null, atMs } = event;
    // A request may have several, such as saves to the store: the oldest one ends first.
    const ended = before.find((one) => same(one) && one.from === from && one.to === to);
    return before.map((transfer) =>
      transfer === ended
        ? { ...transfer, outcome, message, stagesMs, throttled, movingMs, bytesDone: bytes, endMs: atMs }
        : transfer,
    );
  }
  if (event.kind === 'transfer_chunk') {
    const { pairs } = event;
    return before.map((transfer) =>
      same(transfer)
        ? {
            ...transfer,
            pairs: [...transfer.pairs, ...pairs],
            chunks: [...(transfer.chunks ?? []), pairs],
          }
        : transfer,
    );
  }
  const { requestId, from, to, side, pairs, bytes, streamed, atMs } = event;
  const fresh: TransferView = {
    requestId,
    from,
    to,
    side,
    pairs,
    said: pairs.map(([block]) => saidIn(from, block)),
    chunks: streamed ? [] : null,
    bytes,
    bytesDone: 0,
    startMs: atMs,
    endMs: null,
    outcome: null,
    message: '',
    stagesMs: {},
    throttled: false,
    movingMs: null,
  };
  return [...before, fresh].slice(-MOST_TRANSFERS);
}

/** Counts copied bytes: a chunk that left the slab has arrived at the reader. */
export function countBytes(
  state: Record<'transfers' | 'storeTransfers', Signal<readonly TransferView[]>>,
  spans: readonly Span[],
): void {
  for (const { name, requestId, way, args } of spans) {
    if (name !== 'slab out' || typeof args.bytes !== 'number') continue;
    const bytes = args.bytes;
    const transfers = way && isOfStore(way) ? state.storeTransfers : state.transfers;
    transfers.value = transfers.value.map((transfer) =>
      transfer.requestId === requestId && transfer.to === (way?.to ?? transfer.to) && transfer.endMs === null
        ? { ...transfer, bytesDone: Math.min(transfer.bytes, transfer.bytesDone + bytes) }
        : transfer,
    );
  }
}
