/** A model's tokenizer and chat template, as the ports use them. */
import { RequestError } from '../errors.ts';
import type { EngineCluster } from '../fleet/cluster.ts';
import type { Prompt, TextTools } from './service.ts';

export function textTools({ tokenizer, chat }: EngineCluster['text']): TextTools {
  return {
    encode: (text) => tokenizer.encode(text),
    fewestTokens: (text) => tokenizer.fewestTokens(text),
    decode: (tokenIds) => tokenizer.decode(tokenIds),
    encodeMessages: (messages, addGenerationPrompt) =>
      tokenizer.encode(chat.renderPrompt(messages, addGenerationPrompt)),
  };
}

/** Throws RequestError or ModelError. */
export function promptTokens(text: TextTools, prompt: Prompt): readonly number[] {
  switch (prompt.kind) {
    case 'tokens':
      return prompt.tokenIds;
    case 'text':
      return text.encode(prompt.text);
    case 'messages':
      if (prompt.messages.at(-1)?.role === 'assistant') {
        throw new RequestError(
          'the conversation ends with the assistant: the last message must be one to answer',
        );
      }
      return text.encodeMessages(prompt.messages, true);
  }
}
