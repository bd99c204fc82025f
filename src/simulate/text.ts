/** Text functions for a fleet without a tokenizer, whose prompts are token ids. */
import { RequestError } from '../errors.ts';
import type { TurnText } from '../router/prompts.ts';

const noText = (): never => {
  throw new RequestError('a simulated fleet has no tokenizer: give prompts as token ids');
};

export const tokensOnly: TurnText = {
  // No end token: answers have the length that was asked for.
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: noText, streamDecoder: () => ({ push: () => '', end: () => '', silent: true }) },
  chat: { encodePrompt: noText, nextTurnPrompt: noText },
};
