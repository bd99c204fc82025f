/** What a conversation has said, in the form in which it came, and whether a request goes on from that. */
import { commonPrefixLength, type TokenIds } from '../config/token-ids.ts';
import type { GenerateRequest, Message } from './turn-types.ts';

export interface History {
  /** Prompt and output of the last turn. */
  historyIds: TokenIds;
  /** The messages that historyIds stands for, the last answer included; null when the prompts came in another form. */
  messages: readonly Message[] | null;
  /** The same for prompts that came as text. */
  text: string | null;
}

/** What a next turn's messages begin with; null when prompt and answer are no messages of this template's. */
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

/** Whether the request's prompt begins with all of the conversation's last prompt and answer. */
export function goesOn(
  conversation: History,
  request: Pick<GenerateRequest, 'promptTokenIds' | 'messages' | 'promptText'>,
): boolean {
  const { messages, text, historyIds } = conversation;
  if (request.messages) return messages !== null && extendsHistory(request.messages, messages);
  if (request.promptText !== undefined) {
    return text !== null && request.promptText.length > text.length && request.promptText.startsWith(text);
  }
  const prompt = request.promptTokenIds ?? [];
  // The last token may be the end of the answer, which a caller need not repeat.
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
