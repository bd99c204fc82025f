/** Messages from the NIXL connector's scheduler side to its worker side, once per step (vLLM: nixl/metadata.py). */
import type { TokenIds } from '../../config/token-ids.ts';
import type { BlockIds } from '../../engine/types.ts';
import type { BlockPair, HoldRef, ReadClaim, RemoteAddress } from '../../transport/types.ts';

/** The computed part of a prompt: its first numTokens tokens have KV in these blocks. */
export interface ComputedBlocks {
  blockIds: BlockIds;
  numTokens: number;
  /** The whole prompt. */
  tokenIds: TokenIds;
  cacheSalt: string | null;
}

/** A pull for the worker side to start. Without pairs, only the notification is sent, so that the holder frees the blocks. */
export interface RecvRequest {
  remote: RemoteAddress & {
    requestId: string;
    claim: ReadClaim;
    /** Seconds on the holder's clock (vLLM's remote_blocks_expiry_time); null if the holder gave none. */
    blocksExpiryTime: number | null;
  };
  /** Paired by index from the start of the sequence, never by trimming a suffix. */
  pairs: readonly BlockPair[];
  /** Tokens whose KV the pairs bring. */
  numTokens: number;
  /** The holder may still be computing them: `remote` of a pair is the block's index in its sequence, not an id. */
  streamed?: true;
}

/** What a finished request holds for its reader. */
export interface SendRequest {
  blockIds: BlockIds;
  /** The tokens whose KV is in the blocks. Only a reader that knows them and the salt is served. */
  tokenIds: TokenIds;
  cacheSalt: string | null;
  /** Ms on the engine's clock. */
  deadline: number;
  /** 'prefill': P's blocks, for D (lease, heartbeats). 'decode': D's blocks, for P (plain TTL). */
  direction: 'prefill' | 'decode';
}

/** Covers what happened since the last one. */
export interface NixlMetadata {
  reqsToRecv: ReadonlyMap<string, RecvRequest>;
  reqsToSend: ReadonlyMap<string, SendRequest>;
  /** Requests scheduled for the first time that may later hold blocks. */
  reqsInBatch: ReadonlySet<string>;
  /** Requests that ended without leaving anything to send. */
  reqsNotProcessed: ReadonlySet<string>;
  /**
   * Streamed prompts: requests whose KV is read while it is computed, with what is computed now. If there are fewer tokens than
   * before, the previous blocks were freed.
   */
  computed: ReadonlyMap<string, ComputedBlocks>;
  /** Streamed pulls that are no longer needed. */
  reqsToCancel: ReadonlySet<string>;
  /** Remote holds that no local request will read. */
  refused: readonly { remote: RemoteAddress; hold: HoldRef }[];
  /** Remote holds to keep alive, by holder. */
  heartbeats: readonly { remote: RemoteAddress; holds: readonly HoldRef[] }[];
}
