/**
 * Taking a turn back, so that the same one can be served again another way. Nothing is copied or restored where all KV is
 * kept: D still has what it held before the turn (the same tokens, the same bits), so it is enough to offer no more than that,
 * and to let both engines forget what the turn left in their prefix caches. Of windows D has only what the turn's end sees:
 * it gets what it held before once more.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import type { Clock } from '../engine/types.ts';
import { InternalError, RequestError } from '../errors.ts';
import type { Conversation, TurnStart } from './conversations.ts';
import { type HeldForNextTurn, release } from './held.ts';
import { turnOutputs } from './ways.ts';

export interface RewindDeps {
  blockSize: number;
  /** Some layers have windows, and blocks leave them. */
  windowed: boolean;
  clock: Clock;
  /** Of a request at the engines, unguessable. */
  newId: (name: string) => string;
}

/**
 * Puts the conversation back, null for an unknown one; returns D's hold that nothing will use any more, to be released, or null.
 * Throws RequestError when there is nothing to take back, and what an engine throws that is to hold KV anew.
 */
export async function takeBack(
  conversationId: string,
  conversation: Conversation | null,
  prefillKeeps: number | null,
  { blockSize, windowed, clock, newId }: RewindDeps,
): Promise<HeldForNextTurn | null> {
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
  if (useful && windowed && prefill !== decode) {
    conversation.kv = null;
    release(kv);
    conversation.kv = await heldAnew(turn, cacheSalt, newId(`${conversationId}-again`), clock);
  }
  await decode.forgetPrefix(tokenIds, cacheSalt, before.decodeHitTokens);
  if (prefill !== decode)
    await prefill.forgetPrefix(tokenIds, cacheSalt, prefillKeeps ?? before.localHitTokens);
  return useful ? null : kv;
}

/** Of the turn's prompt what D held before it: P computes it, or has it, and hands it over. */
async function heldAnew(
  {
    tokenIds,
    prefill,
    decode,
    heldTokens,
  }: Pick<TurnStart, 'tokenIds' | 'prefill' | 'decode' | 'heldTokens'>,
  cacheSalt: string | null,
  id: string,
  clock: Clock,
): Promise<HeldForNextTurn> {
  const outputs = turnOutputs(
    { way: 'pull', prefill, decode },
    {
      requestIds: { prefill: `${id}-p`, decode: `${id}-d` },
      promptTokenIds: tokenIds.slice(0, heldTokens),
      sampling: { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true },
      cacheSalt,
      acceptedMs: clock.now(),
      ...{ remote: null, pull: null, signal: null, stopped: null },
    },
  );
  let held: HeldForNextTurn | null = null;
  for await (const { side, output } of outputs) {
    const params = side === 'decode' ? output.finish?.kvTransferParams : null;
    if (params) held = { params, holder: decode, atMs: clock.now() };
  }
  if (!held) throw new InternalError(`${decode.engineId} computed ${id} and holds nothing of it`);
  return held;
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
