/** A conversation's history in the form in which it came, and whether a request continues it. */
import { commonPrefixLength, type TokenIds } from '../config/token-ids.ts';
import type { GenerateRequest, Message } from './turn-types.ts';

export interface History {
  /** Prompt and output of the last turn. */
  historyIds: TokenIds;
  /** The messages that historyIds stands for, the last answer included; null if the prompts came in another form. */
  messages: readonly Message[] | null;
  /** The same for prompts that came as text. */
  text: string | null;
}

/**
 * The messages that a next turn must begin with; null if prompt and answer do not form complete messages of this
 * template.
 */
export function messagesAfter(
  { messages, promptEnd }: GenerateRequest,
  text: string,
): readonly Message[] | null {
  const last = messages?.at(-1);
  if (!messages || !last) return null;
  switch (promptEnd) {
    case 'plain':
      return null;
    case 'continue':
      if (last.role !== 'assistant') return null;
      return [...messages.slice(0, -1), { ...last, content: last.content + text }];
    default:
      return [...messages, { role: 'assistant', content: text }];
  }
}

/** Whether the request's prompt begins with the whole of the conversation's last prompt and answer. */
export function continuesHistory(
  conversation: History,
  request: Pick<GenerateRequest, 'promptTokenIds' | 'messages' | 'promptText'>,
): boolean {
  const { messages, text, historyIds } = conversation;
  if (request.messages) return messages !== null && extendsHistory(request.messages, messages);
  if (request.promptText !== undefined) {
    return text !== null && request.promptText.length > text.length && request.promptText.startsWith(text);
  }
  const prompt = request.promptTokenIds ?? [];
  // The last token may be the end token of the answer, which a caller need not repeat.
  const least = historyIds.length - 1;
  return least > 0 && prompt.length >= least && commonPrefixLength(historyIds, prompt) >= least;
}

function extendsHistory(messages: readonly Message[], before: readonly Message[]): boolean {
  return (
    messages.length > before.length &&
    before.every(
      (message, i) => messages[i]!.role === message.role && messages[i]!.content === message.content,
    )
  );
}
