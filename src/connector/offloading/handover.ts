/** AIBrix's PD reuse: D finds P's prompt in the store by block hash. There is no hold and no expiry. */
import { isStoreHandover, STORE_PORT } from '../../config/connectors.ts';
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import type { OfferPlace, StoreLookup } from '../../transport/store-messages.ts';

export interface StoreHandover {
  engineId: string;
  requestId: string;
  /** Tokens that the store had before P began. */
  stored: number;
  /** See PendingSaves.lastOf. */
  lastOffer: number;
}

/** P's parameters for D. */
export const handoverParams = (handover: StoreHandover): KvTransferParams => ({
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_block_ids: [],
  remote_engine_id: handover.engineId,
  remote_request_id: handover.requestId,
  remote_host: '',
  remote_port: STORE_PORT,
  tp_size: 1,
  remote_store_num_tokens: handover.stored,
  remote_store_offer: handover.lastOffer,
});

/** What D's lookup asks the store to wait for. */
export function awaited(params: KvTransferParams | null): Pick<StoreLookup, 'wait' | 'after'> {
  const wait = isStoreHandover(params);
  const { remote_engine_id: engineId, remote_store_offer: offer } = params ?? {};
  const after: OfferPlace | null = wait && engineId && offer ? { engineId, offer } : null;
  return after ? { wait, after } : { wait };
}

/** Index of the first block that P saved during this turn, so that D could have it directly from P; Infinity if not known. */
export function secondHopsFrom(params: KvTransferParams | null, blockSize: number): number {
  const before = params?.do_remote_prefill ? params.remote_store_num_tokens : null;
  return before === null || before === undefined ? Number.POSITIVE_INFINITY : Math.floor(before / blockSize);
}
