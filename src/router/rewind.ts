/**
 * Takes a turn back, so that the same turn can be served again by other means. With full attention nothing is copied
 * or restored: D still has what it held before the turn (the same tokens, the same bits). It is enough to offer only
 * that, and to make both engines forget what the turn left in their prefix caches. With sliding windows, D keeps only
 * what the turn's end sees, so its earlier hold is computed again.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import type { Clock } from '../engine/types.ts';
import { InternalError, RequestError } from '../errors.ts';
import type { Conversation, TurnStart } from './conversation.ts';
import { type HeldForNextTurn, release } from './next-turn-hold.ts';
import { turnOutputs } from './turn-outputs.ts';

export interface RewindDeps {
  blockSize: number;
  /** Some layers have sliding windows, so blocks leave the hold. */
  windowed: boolean;
  clock: Clock;
  /** Creates an unguessable id for a request at the engines. */
  newId: (name: string) => string;
}

/**
 * Restores the conversation to its state before the last turn; `conversation` is null if it is unknown. Returns D's
 * hold if nothing will use it any more (the caller releases it), otherwise null. `prefillKeeps`: tokens that stay in
 * P's prefix cache; null: as many as P found there. Throws RequestError if there is no turn to take back, and the
 * engines' errors if the hold has to be computed again.
 */
export async function takeBack(
  conversationId: string,
  conversation: Conversation | null,
  prefillKeeps: number | null,
  { blockSize, windowed, clock, newId }: RewindDeps,
): Promise<HeldForNextTurn | null> {
  if (!conversation?.before) {
    throw new RequestError(
      `conversation ${conversationId} has no turn to take back: serve one first, and take back only one at a time`,
    );
  }
  const { before, kv, cacheSalt } = conversation;
  const { turns, historyIds, messages, text, specialTokens, ...turn } = before;
  Object.assign(conversation, {
    turns,
    historyIds,
    messages,
    text,
    specialTokens,
    before: null,
    takenBack: true,
  });
  const { tokenIds, prefill, decode, heldTokens } = turn;
  const useful = kv !== null && heldTokens > 0;
  conversation.kv = useful ? { ...kv, params: limitOffer(kv.params, heldTokens, blockSize) } : null;
  if (useful && windowed && prefill !== decode) {
    conversation.kv = null;
    release(kv);
    conversation.kv = await recreateHold(turn, cacheSalt, newId(`${conversationId}-again`), clock);
  }
  await decode.forgetPrefix(tokenIds, cacheSalt, before.decodeHitTokens);
  if (prefill !== decode)
    await prefill.forgetPrefix(tokenIds, cacheSalt, prefillKeeps ?? before.localHitTokens);
  return useful ? null : kv;
}

/**
 * Serves the part of the turn's prompt that D held before the turn, so that D holds it again: P has or computes it
 * and hands it over.
 */
async function recreateHold(
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
  if (!held) throw new InternalError(`${decode.engineId} computed ${id} but holds none of it`);
  return held;
}

/**
 * Limits the parameters to the first numTokens tokens, so that nothing beyond them is offered. remote_token_ids stay
 * whole: the holder serves only readers that know everything it holds.
 */
function limitOffer(params: KvTransferParams, numTokens: number, blockSize: number): KvTransferParams {
  const blocks = Math.ceil(numTokens / blockSize);
  return {
    ...params,
    remote_num_tokens: numTokens,
    remote_block_ids: params.remote_block_ids?.map((ids) => ids.slice(0, blocks)) ?? null,
  };
}
