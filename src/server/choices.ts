/** Which answers a request asks for: n of each of its prompts, numbered as vLLM numbers them. */
import type { SamplingParams } from '../engine/types.ts';
import type { Asked } from './bodies.ts';
import { HttpError } from './http-error.ts';
import type { Prompt } from './service.ts';

/** Token ids of allowed_token_ids that a request's answers carry to the engines at most. */
const MOST_ALLOWED = 2 ** 20;

export interface Choice {
  /** In the answer: prompt × n + its place among the n. */
  index: number;
  prompt: Prompt;
  /** Which of the request's prompts it answers. */
  promptIndex: number;
  sampling: SamplingParams;
  /** For logs. */
  requestId: string;
  conversationId: string | null;
}

/**
 * `most`: how many a port takes at once. Throws HttpError 400. The n of a prompt draw with seeds of their own, from the
 * request's on (vLLM's ParentRequest); a conversation goes on with the first of them.
 */
export function choicesOf(asked: Asked, sampling: SamplingParams, requestId: string, most: number): Choice[] {
  const { prompts, n, nField, conversationId, promptField } = asked;
  const count = prompts.length * n;
  if (count > most) {
    const message = `${prompts.length} prompts with n ${n} are ${count} answers: at most ${most} at once here; send several requests`;
    throw new HttpError(400, message, n > 1 ? nField : promptField);
  }
  const allowed = sampling.allowedTokenIds?.length ?? 0;
  if (count * allowed > MOST_ALLOWED) {
    const message = `allowed_token_ids has ${allowed} ids for ${count} answers: together at most ${MOST_ALLOWED}; send several requests`;
    throw new HttpError(400, message, 'allowed_token_ids');
  }
  if (n > 1 && sampling.temperature === 0) {
    const message = `n is ${n} and the temperature 0, which makes all of them the same: give a temperature, or n 1`;
    throw new HttpError(400, message, nField);
  }
  return prompts.flatMap((prompt, promptIndex) =>
    Array.from({ length: n }, (_, i) => {
      const index = promptIndex * n + i;
      return {
        index,
        prompt,
        promptIndex,
        sampling: i === 0 ? sampling : { ...sampling, seed: seedAfter(sampling.seed, i) },
        requestId: count === 1 ? requestId : `${requestId}-${index}`,
        conversationId: index === 0 ? conversationId : null,
      };
    }),
  );
}

/** Beyond the largest whole number, where neighbours are one, it goes on at the smallest. */
function seedAfter(seed: number, i: number): number {
  const left = Number.MAX_SAFE_INTEGER - seed;
  return i <= left ? seed + i : Number.MIN_SAFE_INTEGER + (i - left - 1);
}

/** What a holder keeps is for one reader, so that its parameters are for one answer. Throws HttpError 400. */
export function checkOneReader({ prompts, n, kvTransferParams }: Asked): void {
  const count = prompts.length * n;
  if (count === 1 || kvTransferParams === null) return;
  const message = `kv_transfer_params come with ${count} answers (${prompts.length} prompts, n ${n}): what they name is read once; send one prompt with n 1 a request`;
  throw new HttpError(400, message, 'kv_transfer_params');
}
