/**
 * Taking a turn back, so that the same one can be served again another way. Nothing is copied or restored: D still has
 * the KV that it held before the turn (the same tokens, the same bits), so it is enough to offer no more than that, and to
 * let both engines forget what the turn left in their prefix caches.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import { RequestError } from '../errors.ts';
import type { Conversation } from './conversations.ts';

/** Puts the conversation back, null for an unknown one; returns D's hold that nothing will use any more, to be released, or null. */
export async function takeBack(
  conversationId: string,
  conversation: Conversation | null,
  blockSize: number,
  prefillKeeps: number | null,
): Promise<Conversation['kv']> {
  if (!conversation?.before) {
    throw new RequestError(
      `conversation ${conversationId} has no turn that could be taken back: serve one first, and take back one at a time`,
    );
  }
  const { before, kv, cacheSalt } = conversation;
  const { turns, historyIds, messages, text, specialTokens, ...turn } = before;
  Object.assign(conversation, { turns, historyIds, messages, text, specialTokens, before: null });
  const { tokenIds, prefill, decode, heldTokens } = turn;
  const useful = kv !== null && heldTokens > 0;
  conversation.kv = useful ? { ...kv, params: offerOnly(kv.params, heldTokens, blockSize) } : null;
  await decode.forgetPrefix(tokenIds, cacheSalt, before.decodeHitTokens);
  if (prefill !== decode)
    await prefill.forgetPrefix(tokenIds, cacheSalt, prefillKeeps ?? before.localHitTokens);
  return useful ? null : kv;
}

/**
 * The parameters cut down to the first numTokens: what the holder has beyond them is not offered. remote_token_ids stay
 * whole: the holder serves who knows all that it holds.
 */
function offerOnly(params: KvTransferParams, numTokens: number, blockSize: number): KvTransferParams {
  const blocks = Math.ceil(numTokens / blockSize);
  return {
    ...params,
    remote_num_tokens: numTokens,
    remote_block_ids: params.remote_block_ids?.map((ids) => ids.slice(0, blocks)) ?? null,
  };
}
