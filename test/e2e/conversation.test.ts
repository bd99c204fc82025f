import { expect, it } from 'vitest';
import type { Message } from '../../src/router/turn-types.ts';
import { SHIPPED_TOKENS, shippedConversation } from '../../src/workload/shipped.ts';
import { generate, nixlWith, withCluster } from './cluster-fixture.ts';

it('recall answers a question about its own story from KV that P pulled back from D', async () => {
  await withCluster({ model: 'recall' }, async (cluster) => {
    const messages: Message[] = [{ role: 'user', content: 'Tell me a story about Finn and a fox.' }];
    const { result: story } = await generate(cluster, { conversationId: 'c', messages });
    expect(story.text).toMatch(/^Finn lived in .* The end\.$/);
    expect(story.finishReason).toBe('stop');

    messages.push(
      { role: 'assistant', content: story.text },
      { role: 'user', content: 'What did Finn find?' },
    );
    const { result: answer } = await generate(cluster, { conversationId: 'c', messages });
    const history = [...story.promptTokenIds, ...story.outputTokenIds];
    expect(answer.promptTokenIds.slice(0, history.length)).toEqual(history);
    // Everything D has: the end token was sampled last and has no KV.
    expect(answer.prompt.pulledTokens).toBe(history.length - 1);
    const found = /^Finn found a (\w+)\.$/.exec(answer.text)?.[1];
    expect(story.text).toContain(`found a ${found}.`);
  });
});

it('the shipped conversation has the prompt and answer lengths stated in SHIPPED_TOKENS', async () => {
  await withCluster({ model: 'recall', mode: 'monolithic' }, async (cluster) => {
    const messages: Message[] = [];
    const lengths = { prompt: 0, answer: 0 };
    for (const turn of shippedConversation.turns) {
      messages.push(...turn);
      const sampling = { maxTokens: 128 };
      const { result } = await generate(cluster, { conversationId: 'c', messages: [...messages], sampling });
      messages.push({ role: 'assistant', content: result.text });
      lengths.prompt = Math.max(lengths.prompt, result.promptTokenIds.length);
      lengths.answer = Math.max(lengths.answer, result.outputTokenIds.length);
    }
    expect(lengths).toEqual(SHIPPED_TOKENS);
  });
});

const TOLD = 'My name is Ada and my boat is mira.';

/** Tells the model a word, replaces the word throughout the history, and asks for it. */
async function askAfterEdit(tokenCheck: boolean) {
  const result = await withCluster({ model: 'recall', ...nixlWith({ tokenCheck }) }, async (cluster) => {
    const first: Message[] = [{ role: 'user', content: TOLD }];
    const { result: told } = await generate(cluster, { conversationId: 'c', messages: first });
    const history = [...first, { role: 'assistant', content: told.text }];
    const edited = history.map(({ role, content }) => ({ role, content: content.replace('mira', 'luna') }));
    const messages = [...edited, { role: 'user', content: 'What is my boat?' }];
    return (await generate(cluster, { conversationId: 'c', messages })).result;
  });
  return { text: result.text, pulled: result.prompt.pulledTokens };
}

it('after an edited history P pulls tokens that still match, and the answer is right', async () => {
  const { text, pulled } = await askAfterEdit(true);
  expect(text).toBe('Your boat is luna.');
  expect(pulled).toBeGreaterThan(0);
});

it('with the token check off, an edited history is answered from KV of the old words', async () => {
  const { text, pulled } = await askAfterEdit(false);
  expect(text).toBe('Your boat is mira.');
  expect(pulled).toBeGreaterThan(0);
});
