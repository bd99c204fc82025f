/** What a request asks for against what the model can do, once its prompt is known as tokens. */
import type { SamplingParams } from '../engine/types.ts';
import type { Asked } from './bodies.ts';
import { HttpError } from './http-error.ts';
import type { ServedModel } from './service.ts';

/** Throws HttpError 400 that names the field. */
export function checkPrompt(
  tokenIds: readonly number[],
  asked: Asked,
  sampling: SamplingParams,
  { maxModelLen, vocabSize, eosTokenIds }: ServedModel,
): void {
  const field = asked.promptField;
  const refuse = (message: string, param: string): never => {
    throw new HttpError(400, message, param);
  };
  const known = (ids: readonly number[], name: string, of: string): void => {
    const foreign = ids.find((id) => id >= vocabSize);
    if (foreign !== undefined) refuse(`${name} holds ${of}${foreign}: the vocabulary has ${vocabSize}`, name);
  };
  if (tokenIds.length === 0) refuse(`${field} has no tokens: give at least one`, field);
  known(tokenIds, field, 'token id ');
  known(sampling.stopTokenIds, 'stop_token_ids', '');
  const { allowedTokenIds } = sampling;
  if (allowedTokenIds) {
    known(allowedTokenIds, 'allowed_token_ids', '');
    const never = neverDrawn(sampling, eosTokenIds);
    if (allowedTokenIds.every((id) => never.has(id))) {
      refuse(
        'allowed_token_ids holds only what bad_words and min_tokens forbid: allow another token',
        'allowed_token_ids',
      );
    }
  }
  if (tokenIds.length + 1 > maxModelLen) {
    refuse(
      `${field} has ${tokenIds.length} tokens: the model's context of ${maxModelLen} must hold one more; shorten it`,
      field,
    );
  }
  if (asked.maxTokens !== null && tokenIds.length + asked.maxTokens > maxModelLen) {
    refuse(
      `${asked.maxTokensField} is ${asked.maxTokens} and the prompt has ${tokenIds.length} tokens: together at most ${maxModelLen}`,
      asked.maxTokensField,
    );
  }
  if (sampling.minTokens > sampling.maxTokens) {
    refuse(
      `min_tokens is ${sampling.minTokens}, more than the ${sampling.maxTokens} tokens allowed: lower it, or raise ${asked.maxTokensField}`,
      'min_tokens',
    );
  }
}

/** At an answer's first token. */
function neverDrawn(
  { badWordsTokenIds = [], minTokens, stopTokenIds }: SamplingParams,
  eosTokenIds: readonly number[],
): Set<number> {
  const words = badWordsTokenIds.filter(({ length }) => length === 1).flat();
  return new Set(minTokens > 0 ? [...words, ...eosTokenIds, ...stopTokenIds] : words);
}
