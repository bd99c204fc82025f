/** A model's text, for prompts that are token ids: there is none. */
import { RequestError } from '../errors.ts';
import type { TurnText } from '../router/prompts.ts';

const noText = (): never => {
  throw new RequestError('a simulated fleet has no tokenizer: give prompts as token ids');
};

export const tokensOnly: TurnText = {
  // Answers are as long as they were asked for.
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: noText, streamDecoder: () => ({ push: () => '', end: () => '', silent: true }) },
  chat: { encodePrompt: noText, nextTurnPrompt: noText },
};
