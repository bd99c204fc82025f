/** What a request is sampled with when it says nothing: greedy, up to 128 tokens. */
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

/** With the defaults for what is left out. */
export const withDefaults = (sampling: Partial<SamplingParams> | undefined): SamplingParams =>
  Object.assign({}, DEFAULT_SAMPLING, sampling);
