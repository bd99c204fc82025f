/** An engine ends after its answer reached a stop string, and before it ended the request. Engines without a GPU. */
import { expect, test } from 'vitest';
import { ConversationCache } from '../../src/router/conversations.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { Router } from '../../src/router/router.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { TurnResult } from '../../src/router/turn-types.ts';
import { PolicyCluster } from '../connector/policy-cluster.ts';
import { alone, tokens } from '../engine/fakes.ts';
import { routingOf } from './policies.ts';

const characterOf = (tokenId: number): string => String.fromCodePoint(0x4e00 + tokenId);

/** Prompts are token ids, and each generated token is one character. */
const text: TurnText = {
  architecture: { eosTokenIds: [] },
  tokenizer: { encode: () => [], streamDecoder: () => ({ push: characterOf, end: () => '' }) },
  chat: { encodePrompt: async () => [], nextTurnPrompt: async () => [] },
};

test.each(['pull', 'streamed'] as const)(
  'with handover %s another engine ends the answer, which stays the same',
  async (handover) => {
    const cluster = new PolicyCluster({ blockSize: 4 }, { blockSize: 4 }, { bidirectional: true });
    const { p, d } = cluster;
    const conversations = new ConversationCache(cluster.clock);
    const routing = routingOf();
    let ids = 0;
    const router = new Router({
      text,
      prompts: new PromptBuilder(text),
      conversations,
      clock: cluster.clock,
      routing: () => routing,
      settings: () => ({ mode: 'bidirectional', handover, throttled: false }),
      engines: () => [p, d],
      newId: (name) => `${name}!${++ids}`,
      onTurn: () => {},
      onRequest: () => {},
      spans: new TurnSpans(),
    });
    const promptTokenIds = tokens(12, 1);
    const sampling = { maxTokens: 8, ignoreEos: true, seed: 1 };
    const answer = await alone(promptTokenIds, sampling);
    const end = answer.findIndex((tokenId, i) => i > 0 && !answer.slice(0, i).includes(tokenId));
    d.stop = async () => d.end();
    const ask = async () => {
      let result: TurnResult | null = null;
      const stop = [characterOf(answer[end]!)];
      const asked = { conversationId: 'a', promptTokenIds, sampling, stop, failover: true };
      for await (const { final } of router.serve(asked)) result = final;
      return result!;
    };
    const result = await cluster.finish(ask());
    expect(d.ended).not.toBeNull();
    expect(result).toMatchObject({ finishReason: 'stop', prompt: { promptTokens: 12 } });
    expect(result.outputTokenIds).toEqual(answer.slice(0, end + 1));
    expect(result.text).toBe(answer.slice(0, end).map(characterOf).join(''));
  },
);
