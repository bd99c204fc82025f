/**
 * The conversation that comes with the project, in words that the recall model was trained on. The user states a fact;
 * the assistant tells three stories and is asked about them. Seven of the twelve answers depend on KV that the decode
 * engine computed. About 400 tokens in all, since the model was trained on contexts up to 512.
 */
import type { TextConversation } from './types.ts';

const user = (content: string) => [{ role: 'user', content }];

/** Tokens of its longest prompt and of its longest answer, with the recall model and greedy sampling. */
export const SHIPPED_TOKENS = { prompt: 387, answer: 78 } as const;

export const shippedConversation: TextConversation = {
  kind: 'text',
  id: 'shipped',
  turns: [
    user('My name is Ada and my boat is mira.'),
    user('Tell me a story about Gus and a bear.'),
    user('What color was the bear?'),
    user('Who came?'),
    user('Tell me a story about Zorblax and a horse.'),
    user('What did Zorblax find?'),
    user('Where did Zorblax live?'),
    user('Tell me a story about Nora and a crow.'),
    user('What color was the crow?'),
    user('Who came?'),
    user('What did Nora find?'),
    user('What do you know about me?'),
  ],
};
