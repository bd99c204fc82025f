/**
 * Taking a turn back, so that the same one can be served again another way. Nothing is copied or restored: D still has
 * the KV that it held before the turn (the same tokens, the same bits), so it is enough to offer no more than that, and to
 * let both engines forget what the turn left in their prefix caches.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import { RequestError } from '../errors.ts';
import type { Conversation, TurnStart } from './conversations.ts';
import type { EngineHandle } from './engine-handle.ts';
import type { ServedTurn } from './served-turn.ts';

/** What the conversation is before this turn's end changes it. `prefiller`: the engine that computed the prompt. */
export function turnStart(served: ServedTurn, prefiller: EngineHandle): TurnStart {
  const { conversation, turn, trace, decode } = served;
  const localHitTokens = trace.prefillAccount?.localHitTokens ?? 0;
  return {
    turns: conversation.turns,
    historyIds: conversation.historyIds,
    messages: conversation.messages,
    text: conversation.text,
    tokenIds: [...turn.promptTokenIds, ...served.outputTokenIds],
    prefill: prefiller,
    decode,
    localHitTokens,
    decodeHitTokens: prefiller === decode ? localHitTokens : trace.decodeHitTokens,
    heldTokens: turn.remote?.remote_num_tokens ?? 0,
  };
}

/** Puts the conversation back, null for an unknown one; returns D's hold that nothing will use any more, to be released, or null. */
export async function takeBack(
  conversationId: string,
  conversation: Conversation | null,
  blockSize: number,
  prefillKeeps: number | null,
  nowMs: number,
): Promise<Conversation['kv']> {
  if (!conversation?.before) {
    throw new RequestError(
      `conversation ${conversationId} has no turn that could be taken back: serve one first, and take back one at a time`,
    );
  }
  const { before, kv, cacheSalt } = conversation;
  const { turns, historyIds, messages, text, tokenIds, prefill, decode, heldTokens } = before;
  Object.assign(conversation, { turns, historyIds, messages, text, before: null });
  const useful = kv !== null && heldTokens > 0;
  conversation.kv = useful
    ? { ...kv, params: offerOnly(kv.params, heldTokens, blockSize), atMs: nowMs }
    : null;
  const forget = (engine: EngineHandle, keep: number) =>
    engine.dead ? null : engine.call((api) => api.forgetPrefix(tokenIds, cacheSalt, keep));
  await forget(decode, before.decodeHitTokens);
  if (prefill !== decode) await forget(prefill, prefillKeeps ?? before.localHitTokens);
  return useful ? null : kv;
}

/**
 * The parameters cut down to the first numTokens: what the holder has beyond them is not offered. remote_token_ids stay
 * whole: the holder serves who knows all that it holds.
 */
export function offerOnly(params: KvTransferParams, numTokens: number, blockSize: number): KvTransferParams {
  const blocks = Math.ceil(numTokens / blockSize);
  return {
    ...params,
    remote_num_tokens: numTokens,
    remote_block_ids: params.remote_block_ids?.map((ids) => ids.slice(0, blocks)) ?? null,
  };
}
