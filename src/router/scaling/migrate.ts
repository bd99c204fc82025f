/**
 * Moves what one D holds for a conversation's next turn to another D. A request at the other D has the held tokens as
 * its prompt: it pulls all of them, computes the last token again, and leaves the same tokens held. kvferry's own;
 * vLLM's holders keep what they hold.
 */
import { DEFAULT_SAMPLING } from '../../engine/sampling.ts';
import type { Clock } from '../../engine/types.ts';
import { KvferryError } from '../../errors.ts';
import type { EngineClient } from '../engine-client.ts';
import type { HeldForNextTurn } from '../next-turn-hold.ts';
import { requestOutputs } from '../turn-outputs.ts';

/**
 * Resolves to null if the hold could not be moved and is lost. The caller releases the first holder's blocks in every
 * case. Rethrows errors other than KvferryError and the signal's reason.
 */
export async function migrate(
  { params }: HeldForNextTurn,
  to: EngineClient,
  cacheSalt: string | null,
  requestId: string,
  clock: Clock,
  signal: AbortSignal,
): Promise<HeldForNextTurn | null> {
  const promptTokenIds = params.remote_token_ids?.slice(0, params.remote_num_tokens ?? 0) ?? [];
  if (promptTokenIds.length === 0) return null;
  const request = {
    requestId,
    promptTokenIds,
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 1, ignoreEos: true },
    kvTransferParams: { ...params, do_remote_prefill: true, do_remote_decode: false },
    cacheSalt,
  };
  try {
    for await (const { output } of requestOutputs(to, request, { signal, stopped: null })) {
      const held = output.finish?.kvTransferParams;
      if (held) return { params: held, holder: to, atMs: clock.now() };
    }
  } catch (error) {
    if (!(error instanceof KvferryError) && error !== signal.reason) throw error;
  }
  return null;
}
