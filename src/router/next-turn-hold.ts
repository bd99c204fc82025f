/**
 * D's hold for a conversation's next turn: named by its kv_transfer_params, good for one turn and for a limited time.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { EngineClient } from './engine-client.ts';

/**
 * Blocks that are about to expire are not offered: P waits in a queue before it reads, and refuses blocks within 5 s
 * of their expiry. vLLM's disagg_proxy_multiturn.py offers for 450 s of D's 480 s; other TTLs get the same share.
 */
const MARGIN_SHARE = 30 / 480;
const LEAST_MARGIN_MS = 5000;
/** For a holder that names no expiry time. */
const OFFERED_MS = 450_000;

export interface HeldForNextTurn {
  params: KvTransferParams;
  holder: EngineClient;
  atMs: number;
  /** It was offered before, to a P that ended. */
  returned?: boolean;
}

/** Whether holds with this TTL are never offered, so that nothing is pulled back. */
export const neverOffered = (ttlMs: number): boolean => ttlMs <= LEAST_MARGIN_MS;

/** When the hold is no longer offered, in milliseconds on the clock of `atMs`. */
export function offeredUntilMs({ params, atMs }: HeldForNextTurn): number {
  const { remote_blocks_expiry_time: expirySeconds } = params;
  if (expirySeconds == null) return atMs + OFFERED_MS;
  const ttlMs = expirySeconds * 1000 - atMs;
  return atMs + ttlMs - Math.max(LEAST_MARGIN_MS, ttlMs * MARGIN_SHARE);
}

/** Frees the blocks at the holder. Safe for a holder that ended and for blocks that are already free. */
export function release({ holder, params }: HeldForNextTurn): void {
  if (params.remote_request_id) void holder.release([params.remote_request_id]);
}
