/** The answers that a request asks for: n to each of its prompts, numbered as in vLLM. */
import type { SamplingParams } from '../../engine/types.ts';
import { plural } from '../../measure/format.ts';
import { HttpError } from '../http/http-error.ts';
import type { Prompt } from '../service.ts';
import type { ParsedRequest } from './bodies.ts';

/** Most ids in allowed_token_ids, multiplied by the request's answers: each answer carries its own copy to the engines. */
const MOST_ALLOWED = 2 ** 20;

export interface Choice {
  /** OpenAI's choice index: prompt index × n + place among the n. */
  index: number;
  prompt: Prompt;
  /** Index of the prompt in the request. */
  promptIndex: number;
  sampling: SamplingParams;
  /** For logs; has the index appended if the request has several answers. */
  requestId: string;
  conversationId: string | null;
}

/**
 * `most`: most answers that the port takes at once. The i-th of a prompt's n answers uses the request's seed plus i (vLLM's
 * ParentRequest). Only the first answer belongs to the conversation. Throws HttpError 400.
 */
export function choicesOf(
  parsed: ParsedRequest,
  sampling: SamplingParams,
  requestId: string,
  most: number,
): Choice[] {
  const { prompts, n, nField, conversationId, promptField } = parsed;
  const count = prompts.length * n;
  if (count > most) {
    const message = `n is ${n} for ${plural(prompts.length, 'prompt')}, which makes ${count} answers: this port takes at most ${most} at once; send several requests`;
    throw new HttpError(400, message, n > 1 ? nField : promptField);
  }
  const allowed = sampling.allowedTokenIds?.length ?? 0;
  if (count * allowed > MOST_ALLOWED) {
    const message = `allowed_token_ids has ${allowed} ids for ${count} answers: wanted at most ${MOST_ALLOWED} together; send several requests`;
    throw new HttpError(400, message, 'allowed_token_ids');
  }
  if (n > 1 && sampling.temperature === 0) {
    const found =
      parsed.sampling.temperature === undefined
        ? `temperature is not given (this server's --temperature is 0)`
        : 'temperature is 0';
    const message = `n is ${n} and ${found}, so all answers would be the same: give a temperature above 0, or set n to 1`;
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

/** seed + i, wrapping from the largest safe integer to the smallest. */
function seedAfter(seed: number, i: number): number {
  const left = Number.MAX_SAFE_INTEGER - seed;
  return i <= left ? seed + i : Number.MIN_SAFE_INTEGER + (i - left - 1);
}

/** A hold has one reader, so kv_transfer_params allow only one answer. Throws HttpError 400. */
export function checkOneReader({ prompts, n, kvTransferParams }: ParsedRequest): void {
  const count = prompts.length * n;
  if (count === 1 || kvTransferParams === null) return;
  const message = `kv_transfer_params is given for ${count} answers (${prompts.length} prompts, n ${n}): the blocks it names can be read only once, and are given up now; send one prompt with n 1 per request, with new parameters`;
  throw new HttpError(400, message, 'kv_transfer_params');
}
