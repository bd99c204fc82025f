/** What the NIXL connector's scheduler side tells its worker side, once a step (vLLM, nixl/metadata.py). */
import type { TokenIds } from '../../config/token-ids.ts';
import type { BlockIds } from '../../engine/types.ts';
import type { BlockPair, HoldRef, ReadClaim, RemoteAddress } from '../../transport/types.ts';

/** What of a prompt has KV: its first numTokens tokens, in these blocks. */
export interface ComputedBlocks {
  blockIds: BlockIds;
  numTokens: number;
  /** The whole prompt's. */
  tokenIds: TokenIds;
  cacheSalt: string | null;
}

/** A pull that the worker side must start. No pairs: only the notification is sent, so that the holder frees. */
export interface RecvRequest {
  remote: RemoteAddress & {
    requestId: string;
    claim: ReadClaim;
    /** Holder's clock, seconds (vLLM's remote_blocks_expiry_time); null when the holder gave none. */
    blocksExpiryTime: number | null;
  };
  /** By index from the start of the sequence, never by trimming a suffix. */
  pairs: readonly BlockPair[];
  /** Tokens whose KV the pairs bring. */
  numTokens: number;
  /** The holder may still be computing them: `remote` of a pair is the block's index in its sequence, not an id. */
  streamed?: true;
}

/** What a finished request leaves for its reader. */
export interface SendRequest {
  blockIds: BlockIds;
  /** Those whose KV is in the blocks; nobody is served who does not know them and the salt. */
  tokenIds: TokenIds;
  cacheSalt: string | null;
  /** Own clock, milliseconds. */
  deadline: number;
  /** 'prefill' holds P's blocks for D (lease, heartbeats); 'decode' holds D's blocks for P (plain TTL). */
  direction: 'prefill' | 'decode';
}

/** Drained when built. */
export interface NixlMetadata {
  reqsToRecv: ReadonlyMap<string, RecvRequest>;
  reqsToSend: ReadonlyMap<string, SendRequest>;
  /** Requests that this step schedules for the first time and that may later hold blocks. */
  reqsInBatch: ReadonlySet<string>;
  /** Requests that ended without leaving anything to send. */
  reqsNotProcessed: ReadonlySet<string>;
  /**
   * Requests whose KV is read while it is computed, with what is there now; fewer tokens than before: those blocks were
   * given back.
   */
  computed: ReadonlyMap<string, ComputedBlocks>;
  /** Streamed pulls that nobody wants any more. */
  reqsToCancel: ReadonlySet<string>;
  /** Holds that nobody here will read. */
  refused: readonly { remote: RemoteAddress; hold: HoldRef }[];
  /** Holds to keep alive, by holder. */
  heartbeats: readonly { remote: RemoteAddress; holds: readonly HoldRef[] }[];
}
