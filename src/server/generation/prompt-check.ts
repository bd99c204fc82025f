/** Checks a request against the model's limits, once its prompt is tokenised. */
import type { SamplingParams } from '../../engine/types.ts';
import { HttpError } from '../http/http-error.ts';
import type { ServedModel } from '../service.ts';
import type { ParsedRequest } from './bodies.ts';

/** Throws HttpError 400 that names the field. */
export function checkPrompt(
  tokenIds: readonly number[],
  parsed: ParsedRequest,
  sampling: SamplingParams,
  { maxModelLen, vocabSize, eosTokenIds }: ServedModel,
): void {
  const field = parsed.promptField;
  const refuse = (message: string, param: string): never => {
    throw new HttpError(400, message, param);
  };
  if (tokenIds.length === 0) refuse(`${field} has no tokens: give at least one`, field);
  checkIds(tokenIds, field, vocabSize, 'token id ');
  checkIds(sampling.stopTokenIds, 'stop_token_ids', vocabSize);
  const { allowedTokenIds } = sampling;
  if (allowedTokenIds) {
    checkIds(allowedTokenIds, 'allowed_token_ids', vocabSize);
    const never = neverDrawn(sampling, eosTokenIds);
    if (allowedTokenIds.every((id) => never.has(id))) {
      refuse(
        'allowed_token_ids contains only tokens that bad_words and min_tokens exclude: allow another token',
        'allowed_token_ids',
      );
    }
  }
  if (tokenIds.length + 1 > maxModelLen) {
    refuse(
      `${field} has ${tokenIds.length} tokens: wanted fewer than the model's context, ${maxModelLen}; shorten it`,
      field,
    );
  }
  if (parsed.maxTokens !== null && tokenIds.length + parsed.maxTokens > maxModelLen) {
    refuse(
      `${parsed.maxTokensField} is ${parsed.maxTokens} and the prompt has ${tokenIds.length} tokens: wanted at most ${maxModelLen} together`,
      parsed.maxTokensField,
    );
  }
  if (sampling.minTokens > sampling.maxTokens) {
    refuse(
      `min_tokens is ${sampling.minTokens}, more than the limit of ${sampling.maxTokens} tokens: lower it, or raise ${parsed.maxTokensField}`,
      'min_tokens',
    );
  }
}

/** Throws HttpError 400 that names the field if an id is not in the vocabulary. `what`: a word before the id. */
export function checkIds(ids: readonly number[], field: string, vocabSize: number, what = ''): void {
  const foreign = ids.find((id) => id >= vocabSize);
  if (foreign === undefined) return;
  const message = `${field} contains ${what}${foreign}: wanted ids below the vocabulary size, ${vocabSize}`;
  throw new HttpError(400, message, field);
}

/** Token ids that cannot be sampled as an answer's first token. */
function neverDrawn(
  { badWordsTokenIds = [], minTokens, stopTokenIds }: SamplingParams,
  eosTokenIds: readonly number[],
): Set<number> {
  const words = badWordsTokenIds.filter(({ length }) => length === 1).flat();
  return new Set(minTokens > 0 ? [...words, ...eosTokenIds, ...stopTokenIds] : words);
}
