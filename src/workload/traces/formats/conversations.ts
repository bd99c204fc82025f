/**
 * Conversations of ShareGPT ({conversations: [{from, value}]}) and of OpenAI and vLLM ({messages: [{role, content}]}),
 * one after the other or in a list. They have no times: the reader's options say when first turns arrive. Only lengths
 * are used.
 */
import { z } from 'zod';
import { messageText } from '../../message-text.ts';
import { type FormatReader, type LineContext, type Parsed, parseObject, type RawRequest } from './format.ts';

const said = z.union(
  [
    z
      .object({ from: z.string(), value: z.string() })
      .transform(({ from, value }) => ({ role: from, text: value })),
    z
      .object({
        role: z.string(),
        content: z.union([z.string(), z.array(z.object({ type: z.literal('text'), text: z.string() }))]),
      })
      .transform(({ role, content }) => ({ role, text: messageText(content) })),
  ],
  { error: 'what was said as text: {from, value}, or {role, content}' },
);

const conversation = z.object({
  conversations: z.array(said, { error: 'a list of {from, value}' }).optional(),
  messages: z.array(said, { error: 'a list of {role, content}' }).optional(),
});

const ASSISTANTS = new Set(['assistant', 'gpt', 'chatgpt', 'bing', 'bard']);

export const conversations: FormatReader = {
  name: 'conversations',
  traceBlockSize: 16,
  unit: 'object',
  parse(text, context) {
    const parsed = parseObject(text, conversation);
    if ('bad' in parsed) return parsed;
    const list = parsed.value.conversations ?? parsed.value.messages;
    if (!list) return { bad: 'it has neither conversations nor messages: wanted a list of what was said' };
    return turnsOf(list, context);
  },
};

/** One turn for each answer. Messages after the last answer are dropped: the length of their answer is unknown. */
function turnsOf(list: readonly z.infer<typeof said>[], { countTokens }: LineContext): Parsed {
  const turns: RawRequest[] = [];
  let tokens = 0;
  let questionTokens = 0;
  for (const { role, text } of list) {
    const count = countTokens(text);
    if (ASSISTANTS.has(role)) {
      if (questionTokens > 0 && count > 0)
        turns.push({
          timeMs: null,
          inputTokens: tokens,
          outputTokens: count,
          hashIds: null,
          // The reader sets the session's name and think time.
          origin: { kind: 'session', id: '', delayMs: null },
        });
      questionTokens = 0;
    } else questionTokens += count;
    tokens += count;
  }
  return turns.length > 0 ? turns : { bad: 'no message in it is answered' };
}
