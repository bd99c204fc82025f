/** A turn's prompt as token ids. History stays as the ids that the engines saw; only what is new is tokenised. */
import { RequestError } from '../errors.ts';
import type { TextModel } from '../model/load.ts';
import type { Conversation } from './conversations.ts';
import type { GenerateRequest, Message } from './types.ts';

export class PromptBuilder {
  readonly #text: TextModel;

  constructor(text: TextModel) {
    this.#text = text;
  }

  /** `conversation`: what is known of it; null for a prompt that stands alone. Throws RequestError. */
  build(
    request: Pick<GenerateRequest, 'promptTokenIds' | 'messages'>,
    conversation: Conversation | null,
  ): readonly number[] {
    if (request.promptTokenIds && request.messages) {
      throw new RequestError('a request has both promptTokenIds and messages: give one of them');
    }
    if (request.promptTokenIds) return request.promptTokenIds;
    const { messages } = request;
    if (!messages || messages.length === 0) {
      throw new RequestError('a request has neither promptTokenIds nor messages: give one of them');
    }
    if (messages.at(-1)?.role === 'assistant') {
      throw new RequestError(
        'the conversation ends with the assistant: the last message must be one to answer',
      );
    }
    const before = conversation?.messages;
    if (conversation && before && extendsHistory(messages, before)) {
      return this.#text.chat.nextTurnPrompt({
        historyIds: conversation.historyIds,
        messagesBefore: before,
        newMessages: messages.slice(before.length),
      }).promptTokenIds;
    }
    return this.#text.tokenizer.encode(this.#text.chat.renderPrompt(messages, true));
  }
}

function extendsHistory(messages: readonly Message[], before: readonly Message[]): boolean {
  return (
    messages.length > before.length &&
    before.every(
      (message, i) => messages[i]!.role === message.role && messages[i]!.content === message.content,
    )
  );
}
