/** Builds a turn's prompt as token ids. History keeps the ids that the engines saw; only new text is tokenised. */
import { type TokenIds, written } from '../config/token-ids.ts';
import { RequestError } from '../errors.ts';
import type { StreamDecoder } from './answer.ts';
import type { Conversation } from './conversation.ts';
import { continuesHistory } from './history.ts';
import type { GenerateRequest, Message, PromptEnd, PromptSource } from './turn-types.ts';

/** Text to ids, without special tokens. */
type Encode = (text: string) => readonly number[] | Promise<readonly number[]>;

/** What the router needs of a model's tokenizer and chat template. */
export interface TurnText {
  architecture: { eosTokenIds: readonly number[] };
  tokenizer: {
    encode(text: string): number[];
    /** Ids of a text that another precedes; null if they depend on that one. Absent: they are those of the text alone. */
    encodeAfter?(text: string, encode: Encode): Promise<readonly number[] | null>;
    /** Adds the special tokens of a whole prompt. Absent: the model has none. */
    withSpecialTokens?(tokenIds: readonly number[]): readonly number[];
    /** `after`: the prompt's token ids. */
    streamDecoder(options: { skipSpecialTokens: boolean; after: TokenIds }): StreamDecoder;
  };
  chat: {
    /** Rejects with RequestError or ModelError. */
    encodePrompt(messages: readonly Message[], encode: Encode, end: PromptEnd): Promise<readonly number[]>;
    /** `historyIds`: prompt and output of the last turn; `messagesBefore`: the messages that they stand for. */
    nextTurnPrompt(
      next: {
        historyIds: readonly number[];
        messagesBefore: readonly Message[];
        newMessages: readonly Message[];
        end: PromptEnd;
      },
      encode: Encode,
    ): Promise<readonly number[]>;
  };
}

export class PromptBuilder {
  readonly #text: TurnText;

  constructor(text: TurnText) {
    this.#text = text;
  }

  /** `conversation`: what is known of it; null for a prompt without a conversation. Rejects with RequestError. */
  async build(
    request: Omit<PromptSource, 'conversationId'> & Pick<GenerateRequest, 'promptEnd'>,
    conversation: Conversation | null,
  ): Promise<TokenIds> {
    const { messages, promptTokenIds, promptText, promptEnd: end = 'generation_prompt' } = request;
    const forms = [messages, promptTokenIds, promptText].filter((form) => form !== undefined);
    if (forms.length > 1)
      throw new RequestError(
        'a request has more than one of messages, promptTokenIds and promptText: give one',
      );
    if (promptTokenIds) return promptTokenIds;
    const encode = request.encode ?? ((text) => this.#text.tokenizer.encode(text));
    const continued = conversation && continuesHistory(conversation, request) ? conversation : null;
    if (promptText !== undefined)
      return this.#fromText(promptText, continued, encode, request.addSpecialTokens ?? false);
    if (!messages)
      throw new RequestError('a request has no messages, promptTokenIds or promptText: give one of them');
    if (messages.length === 0) throw new RequestError("a request's messages are empty: give at least one");
    checkLast(messages, end);
    if (continued?.messages) {
      const { historyIds, messages: messagesBefore } = continued;
      const newMessages = messages.slice(messagesBefore.length);
      const turn = { historyIds: written(historyIds), messagesBefore, newMessages, end };
      return this.#text.chat.nextTurnPrompt(turn, encode);
    }
    return this.#text.chat.encodePrompt(messages, encode, end);
  }

  async #fromText(
    text: string,
    continued: Conversation | null,
    encode: Encode,
    addSpecialTokens: boolean,
  ): Promise<readonly number[]> {
    const withSpecialTokens = (ids: readonly number[]) =>
      this.#text.tokenizer.withSpecialTokens?.(ids) ?? ids;
    // The same text may have been tokenised with other special tokens.
    const alike = continued?.specialTokens === addSpecialTokens || withSpecialTokens([]).length === 0;
    if (continued?.text && alike) {
      const more = text.slice(continued.text.length);
      const added = await (this.#text.tokenizer.encodeAfter?.(more, encode) ?? encode(more));
      if (added) return [...written(continued.historyIds), ...added];
    }
    const ids = await encode(text);
    return addSpecialTokens ? withSpecialTokens(ids) : ids;
  }
}

/** Throws RequestError if an answer is to be generated after an assistant's message. */
export function checkLast(messages: readonly Message[], end: PromptEnd): void {
  if (end !== 'generation_prompt' || messages.at(-1)?.role !== 'assistant') return;
  throw new RequestError(
    'the conversation ends with the assistant: end it with a message to answer, or let the answer continue it (continue_final_message; in the library, promptEnd: continue)',
  );
}
