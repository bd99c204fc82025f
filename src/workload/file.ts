/**
 * Conversations from a file in OpenAI's and ShareGPT's shape: a list of messages, `{id?, messages}`, or a list of those.
 * Only what the user's side says is taken: every message of the user gets an answer, and the assistant's own are skipped.
 */
import { z } from 'zod';
import { ConfigError } from '../errors.ts';
import type { Message, TextConversation } from './types.ts';

const contentSchema = z.union([
  z.string(),
  z
    .array(z.object({ type: z.literal('text'), text: z.string() }))
    .transform((parts) => parts.map((p) => p.text).join('')),
]);
const messageSchema = z.object({ role: z.string().min(1), content: z.unknown() });
const messagesSchema = z.array(messageSchema);
const conversationSchema = z.object({
  id: z.union([z.string(), z.number()]).optional(),
  messages: z.unknown(),
});

/** `location` is for messages. Throws ConfigError. */
export function parseConversations(text: string, location: string): TextConversation[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new ConfigError(
      `${location} is no JSON (${(error as Error).message}): wanted OpenAI-style messages`,
      {
        cause: error,
      },
    );
  }
  const list = Array.isArray(json) && !json.every(looksLikeMessage) ? json : [json];
  const conversations = list.map((item, index) => {
    const place = list.length === 1 ? location : `${location}, conversation ${index + 1}`;
    const { id, messages } = unwrap(item, place);
    return { kind: 'text' as const, id: String(id ?? index + 1), turns: splitTurns(messages, place) };
  });
  const seen = new Set<string>();
  for (const { id } of conversations) {
    if (seen.has(id))
      throw new ConfigError(`${location} has two conversations with the id '${id}': give each its own`);
    seen.add(id);
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

function splitTurns(messages: readonly z.infer<typeof messageSchema>[], place: string): Message[][] {
  if (messages.length === 0)
    throw new ConfigError(`${place} has no messages: wanted at least one of the user`);
  if (messages.at(-1)?.role === 'assistant') {
    throw new ConfigError(
      `${place} ends with the assistant: its turns are generated, so the last message must be the user's; leave the answer out`,
    );
  }
  const turns: Message[][] = [];
  let current: Message[] = [];
  for (const [index, { role, content }] of messages.entries()) {
    if (role === 'assistant') {
      if (!current.some((message) => message.role !== 'system')) {
        throw new ConfigError(
          `${place}: message ${index + 1} is the assistant's with nothing to answer before it; let the user speak first`,
        );
      }
      turns.push(current);
      current = [];
      continue;
    }
    const parsed = contentSchema.safeParse(content);
    if (!parsed.success) {
      throw new ConfigError(
        `${place}: message ${index + 1} has no text: wanted "content" as a string or a list of text parts`,
      );
    }
    if (role === 'user' && current.some((message) => message.role === 'user')) {
      turns.push(current);
      current = [];
    }
    current.push({ role, content: parsed.data });
  }
  if (!current.some((message) => message.role !== 'system')) {
    throw new ConfigError(`${place} ends with a system message: the last message must be the user's`);
  }
  return [...turns, current];
}
