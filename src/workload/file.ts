/**
 * Conversations from a file in OpenAI's and ShareGPT's shape: a list of messages, `{id?, messages}`, or a list of
 * those. The user's side is served: every message of the user gets a generated answer in place of the assistant's own.
 */
import { z } from 'zod';
import { parseJson } from '../config/fields.ts';
import { ConfigError } from '../errors.ts';
import { messageText } from './message-text.ts';
import type { AnsweredConversation, Message, TextConversation } from './types.ts';

const contentSchema = z
  .union([z.string(), z.array(z.object({ type: z.literal('text'), text: z.string() }))])
  .transform(messageText);
const messageSchema = z.object({ role: z.string().min(1), content: z.unknown() });
const messagesSchema = z.array(messageSchema);
const conversationSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  messages: z.unknown(),
});

/** `location` names the file in error messages. Throws ConfigError. */
export function parseConversations(text: string, location: string): TextConversation[] {
  return readList(parseMessages(text, location), location).map(({ id, turns, place }) => {
    if (turns.at(-1)!.answer !== null) {
      throw new ConfigError(
        `${place} ends with the assistant: its turns are generated, so the last message must be the user's; omit that answer`,
      );
    }
    return { kind: 'text', id, turns: turns.map(({ messages }) => messages) };
  });
}

/** The same with the answers that the file has, for callers that need their lengths. Throws ConfigError. */
export function parseAnswered(json: unknown, location: string): AnsweredConversation[] {
  return readList(json, location).map(({ id, turns }) => ({ id, turns }));
}

/** Throws ConfigError that names the place. */
export const parseMessages = (text: string, location: string): unknown =>
  parseJson(text, location, 'wanted OpenAI-style messages');

function readList(json: unknown, location: string): (AnsweredConversation & { place: string })[] {
  const list = Array.isArray(json) && !json.every(looksLikeMessage) ? json : [json];
  const conversations = list.map((item, index) => {
    const place = list.length === 1 ? location : `${location}, conversation ${index + 1}`;
    const { id, messages } = unwrap(item, place);
    return { id: String(id ?? index + 1), turns: splitTurns(messages, place), place };
  });
  const ids = new Set<string>();
  for (const { id } of conversations) {
    if (ids.has(id))
      throw new ConfigError(`${location} has two conversations with the id '${id}': give each its own`);
    ids.add(id);
  }
  return conversations;
}

const looksLikeMessage = (item: unknown): boolean =>
  typeof item === 'object' && item !== null && 'role' in item;

function unwrap(
  item: unknown,
  place: string,
): { id: string | number | undefined; messages: z.infer<typeof messagesSchema> } {
  const wrapped = Array.isArray(item) ? { messages: item } : item;
  const outer = conversationSchema.safeParse(wrapped);
  const messages = messagesSchema.safeParse(outer.data?.messages);
  if (!outer.success || !messages.success) {
    throw new ConfigError(
      `${place} has no list of messages: wanted [{"role": "user", "content": "..."}], {"messages": [...]}, or a list of these`,
    );
  }
  return { id: outer.data.id, messages: messages.data };
}

function splitTurns(
  messages: readonly z.infer<typeof messageSchema>[],
  place: string,
): AnsweredConversation['turns'] {
  if (messages.length === 0)
    throw new ConfigError(`${place} has no messages: wanted at least one user message`);
  const turns: AnsweredConversation['turns'][number][] = [];
  let current: Message[] = [];
  const end = (answer: string | null): void => {
    turns.push({ messages: current, answer });
    current = [];
  };
  for (const [index, { role, content }] of messages.entries()) {
    if (role === 'assistant' && !current.some((message) => message.role !== 'system')) {
      throw new ConfigError(
        `${place}: message ${index + 1} is the assistant's, with nothing to answer before it; begin with a user message`,
      );
    }
    const parsed = contentSchema.safeParse(content);
    if (role === 'assistant') {
      end(parsed.data ?? '');
      continue;
    }
    if (!parsed.success) {
      throw new ConfigError(
        `${place}: message ${index + 1} has no text: wanted "content" as a string or a list of text parts`,
      );
    }
    if (role === 'user' && current.some((message) => message.role === 'user')) end(null);
    current.push({ role, content: parsed.data });
  }
  if (current.length === 0) return turns;
  if (!current.some((message) => message.role !== 'system')) {
    throw new ConfigError(`${place} ends with a system message: the last message must be the user's`);
  }
  end(null);
  return turns;
}
