/** Sampling parameters: defaults (greedy, up to 128 tokens) and validation. */
import { didYouMean } from '../config/fields.ts';
import type { SamplingParams } from './types.ts';

export const DEFAULT_SAMPLING: SamplingParams = {
  maxTokens: 128,
  minTokens: 0,
  temperature: 0,
  topK: 0,
  topP: 1,
  seed: 0,
  stopTokenIds: [],
  ignoreEos: false,
};

const NAMES = Object.keys(DEFAULT_SAMPLING) as (keyof SamplingParams)[];

/** Fills missing and undefined fields with defaults. */
export function withDefaults(sampling: Partial<SamplingParams> | undefined): SamplingParams {
  const all: SamplingParams = Object.assign({}, DEFAULT_SAMPLING, sampling);
  for (const name of NAMES)
    if (all[name] === undefined) Object.assign(all, { [name]: DEFAULT_SAMPLING[name] });
  return all;
}

/** All that a caller can give. */
const KNOWN: Readonly<Record<keyof SamplingParams, true>> = {
  maxTokens: true,
  minTokens: true,
  temperature: true,
  topK: true,
  topP: true,
  seed: true,
  stopTokenIds: true,
  ignoreEos: true,
  allowedTokenIds: true,
  badWordsTokenIds: true,
  forcedTokenIds: true,
  keepLogits: true,
};

/** What is wrong if an untyped caller gives a parameter that there is not, or null: it would have no effect. */
export function unknownSampling(sampling: Partial<SamplingParams>): string | null {
  const unknown = Object.keys(sampling).find((name) => !(name in KNOWN));
  if (unknown === undefined) return null;
  const known = Object.keys(KNOWN);
  return `there is no sampling parameter '${unknown}': wanted some of ${known.join(', ')}${didYouMean(unknown, known)}`;
}

const isWhole = (value: number, least: number): boolean => Number.isInteger(value) && value >= least;

/** What is wrong and what to do, or null. Does not check ids against the vocabulary: see checkRequest. */
export function samplingProblem(sampling: SamplingParams): string | null {
  const { maxTokens, minTokens, temperature, topK, topP, seed, stopTokenIds, badWordsTokenIds } = sampling;
  if (!isWhole(maxTokens, 1)) return `maxTokens is ${maxTokens}: ask for at least 1 token`;
  if (!isWhole(minTokens, 0)) return `minTokens is ${minTokens}: give a whole number, 0 or more`;
  if (minTokens > maxTokens) return `minTokens ${minTokens} is more than maxTokens ${maxTokens}: lower it`;
  if (!(Number.isFinite(temperature) && temperature >= 0))
    return `temperature is ${temperature}: give a number, 0 (greedy) or more`;
  if (!isWhole(topK, 0)) return `topK is ${topK}: give a whole number, 0 (every token) or more`;
  if (!(Number.isFinite(topP) && topP > 0 && topP <= 1))
    return `topP is ${topP}: give a number above 0 and at most 1`;
  if (!Number.isInteger(seed)) return `seed is ${seed}: give a whole number`;
  if (sampling.allowedTokenIds?.length === 0) return 'allowedTokenIds is []: allow at least one token';
  if (!Array.isArray(stopTokenIds)) return `stopTokenIds is ${stopTokenIds}: give a list of token ids`;
  if (badWordsTokenIds === undefined) return null;
  if (!Array.isArray(badWordsTokenIds) || !badWordsTokenIds.every(Array.isArray))
    return 'badWordsTokenIds is not a list of lists: give sequences of token ids';
  if (badWordsTokenIds.some((word) => word.length === 0))
    return 'badWordsTokenIds holds [], which every output ends with: remove it';
  return null;
}
