/** A turn's prompt as token ids. History stays as the ids that the engines saw; only what is new is tokenised. */
import { RequestError } from '../errors.ts';
import type { StreamDecoder } from './answer.ts';
import { type Conversation, goesOn } from './conversations.ts';
import type { GenerateRequest, Message } from './turn-types.ts';

/** What the router needs of a model's tokenizer and chat template. */
export interface TurnText {
  architecture: { eosTokenIds: readonly number[] };
  tokenizer: { encode(text: string): number[]; streamDecoder(): StreamDecoder };
  chat: {
    /** Throws RequestError or ModelError. */
    encodePrompt(messages: readonly Message[]): number[];
    /** `historyIds`: prompt and output of the last turn, which messagesBefore stand for. */
    nextTurnPrompt(next: {
      historyIds: readonly number[];
      messagesBefore: readonly Message[];
      newMessages: readonly Message[];
    }): { promptTokenIds: number[] };
  };
}

export class PromptBuilder {
  readonly #text: TurnText;

  constructor(text: TurnText) {
    this.#text = text;
  }

  /** `conversation`: what is known of it; null for a prompt that stands alone. Throws RequestError. */
  build(
    request: Pick<GenerateRequest, 'promptTokenIds' | 'messages' | 'promptText'>,
    conversation: Conversation | null,
  ): readonly number[] {
    const { messages, promptTokenIds, promptText } = request;
    const given = [messages, promptTokenIds, promptText].filter((form) => form !== undefined);
    if (given.length > 1)
      throw new RequestError(
        'a request has more than one of messages, promptTokenIds and promptText: give one',
      );
    if (promptTokenIds) return promptTokenIds;
    const goingOn = conversation && goesOn(conversation, request) ? conversation : null;
    if (promptText !== undefined) return this.#fromText(promptText, goingOn);
    if (!messages || messages.length === 0) {
      throw new RequestError('a request has no messages and no promptTokenIds: give one of them');
    }
    if (messages.at(-1)?.role === 'assistant') {
      throw new RequestError(
        'the conversation ends with the assistant: the last message must be one to answer',
      );
    }
    if (goingOn?.messages) {
      return this.#text.chat.nextTurnPrompt({
        historyIds: goingOn.historyIds,
        messagesBefore: goingOn.messages,
        newMessages: messages.slice(goingOn.messages.length),
      }).promptTokenIds;
    }
    return this.#text.chat.encodePrompt(messages);
  }

  #fromText(text: string, goingOn: Conversation | null): readonly number[] {
    const { tokenizer } = this.#text;
    if (!goingOn?.text) return tokenizer.encode(text);
    return [...goingOn.historyIds, ...tokenizer.encode(text.slice(goingOn.text.length))];
  }
}
