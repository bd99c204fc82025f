/** What D holds for a conversation's next turn: named by its kv_transfer_params, good for one turn and so long. */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { EngineClient } from './engine-client.ts';

/**
 * Blocks that are about to expire are not offered: P, which waits in a queue before it reads, refuses them 5 s before their
 * end. vLLM's disagg_proxy_multiturn.py offers for 450 s of D's 480; another TTL gets the same share.
 */
const MARGIN_SHARE = 30 / 480;
const LEAST_MARGIN_MS = 5000;
/** For a holder that names no end. */
const OFFERED_MS = 450_000;

export interface HeldForNextTurn {
  params: KvTransferParams;
  holder: EngineClient;
  atMs: number;
  /** It was offered before, to a P that ended: if that had read it, the holder has it no more. */
  givenBack?: boolean;
}

/** On the clock of what is held. */
export function offeredUntilMs({ params, atMs }: HeldForNextTurn): number {
  const { remote_blocks_expiry_time: expirySeconds } = params;
  if (expirySeconds == null) return atMs + OFFERED_MS;
  const ttlMs = expirySeconds * 1000 - atMs;
  return atMs + ttlMs - Math.max(LEAST_MARGIN_MS, ttlMs * MARGIN_SHARE);
}

/** Frees at the holder; safe for one that ended and for blocks that are free already. */
export function release({ holder, params }: HeldForNextTurn): void {
  if (params.remote_request_id) void holder.release([params.remote_request_id]);
}
