import { expect, it } from 'vitest';
import type { Message } from '../../src/cluster/types.ts';
import { generate, withCluster } from './cluster-fixture.ts';

it('recall answers about the story it told, from KV that P pulled back from D', async () => {
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
    // All that D has: the end token was sampled last and has no KV.
    expect(answer.prompt.pulledTokens).toBe(history.length - 1);
    const found = /^Finn found a (\w+)\.$/.exec(answer.text)?.[1];
    expect(story.text).toContain(`found a ${found}.`);
  });
});
