/** A model's tokenizer and chat template, for the ports. */
import type { EngineCluster } from '../../fleet/cluster.ts';
import { checkLast } from '../../router/prompts.ts';
import type { GenerationRequest, TextTools } from '../service.ts';

/** Characters; about 8 ms of work. Texts up to this length are tokenised on the server's thread, longer ones on another. */
export const SHORT_TEXT = 16 * 1024;

export function textTools(
  { tokenizer, chat }: EngineCluster['text'],
  encodeLong: TextTools['encode'],
): TextTools {
  const encode: TextTools['encode'] = async (text, signal) =>
    text.length <= SHORT_TEXT ? tokenizer.encode(text) : encodeLong(text, signal);
  return {
    encode,
    mostCharacters: tokenizer.mostCharacters,
    decode: (tokenIds) => tokenizer.decode(tokenIds),
    token: (tokenId) => tokenizer.token(tokenId),
    bytes: (tokenId) => tokenizer.bytes(tokenId),
    withSpecialTokens: (tokenIds) => tokenizer.withSpecialTokens(tokenIds),
    encodeMessages: async (messages, end, signal) => encode(chat.renderPrompt(messages, end), signal),
  };
}

/** Tokenises the prompt. Rejects with RequestError, ModelError, or as TextTools.encode does. */
export async function promptTokens(
  text: TextTools,
  { prompt, addSpecialTokens }: Pick<GenerationRequest, 'prompt' | 'addSpecialTokens'>,
  signal: AbortSignal,
): Promise<readonly number[]> {
  switch (prompt.kind) {
    case 'tokens':
      return prompt.tokenIds;
    case 'text': {
      const tokenIds = await text.encode(prompt.text, signal);
      return addSpecialTokens ? text.withSpecialTokens(tokenIds) : tokenIds;
    }
    case 'messages':
      checkLast(prompt.messages, prompt.end);
      return text.encodeMessages(prompt.messages, prompt.end, signal);
  }
}
