/** A model's tokenizer and chat template, as the ports use them. */
import { RequestError } from '../errors.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import type { Prompt, TextTools } from './service.ts';

/** Characters: about 8 ms of work. Others wait for a text that is no longer; a longer one goes to a thread. */
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
    encodeMessages: async (messages, addGenerationPrompt, signal) =>
      encode(chat.renderPrompt(messages, addGenerationPrompt), signal),
  };
}

/** Rejects with RequestError, ModelError, or what TextTools.encode rejects with. */
export async function promptTokens(
  text: TextTools,
  prompt: Prompt,
  signal: AbortSignal,
): Promise<readonly number[]> {
  switch (prompt.kind) {
    case 'tokens':
      return prompt.tokenIds;
    case 'text':
      return text.encode(prompt.text, signal);
    case 'messages':
      if (prompt.messages.at(-1)?.role === 'assistant') {
        throw new RequestError(
          'the conversation ends with the assistant: the last message must be one to answer',
        );
      }
      return text.encodeMessages(prompt.messages, true, signal);
  }
}
