/** A router over a policy cluster, in mode bidirectional. Prompts are token ids. */
import type { Handover } from '../../src/config/cluster-schema.ts';
import { ConversationCache } from '../../src/router/conversations.ts';
import type { EngineClient } from '../../src/router/engine-client.ts';
import { PromptBuilder, type TurnText } from '../../src/router/prompts.ts';
import { Router } from '../../src/router/router.ts';
import { TurnSpans } from '../../src/router/turn-spans.ts';
import type { GenerateRequest, TurnResult } from '../../src/router/turn-types.ts';
import type { PolicyCluster } from '../connector/policy-cluster.ts';
import { routingOf } from './policies.ts';

interface RouterOptions {
  handover: Handover;
  /** Text of a generated token. */
  characterOf?: (tokenId: number) => string;
  engines?: () => readonly EngineClient[];
}

/** `ask` sends a turn of conversation 'a'. */
export function routerOver(
  cluster: PolicyCluster,
  { handover, characterOf = () => '', engines = () => [cluster.p, cluster.d] }: RouterOptions,
) {
  const text: TurnText = {
    architecture: { eosTokenIds: [] },
    tokenizer: { encode: () => [], streamDecoder: () => ({ push: characterOf, end: () => '' }) },
    chat: { encodePrompt: async () => [], nextTurnPrompt: async () => [] },
  };
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
    engines,
    newId: (name) => `${name}!${++ids}`,
    onTurn: () => {},
    onRequest: () => {},
    spans: new TurnSpans(),
  });
  const ask = async (request: Omit<GenerateRequest, 'conversationId'>): Promise<TurnResult> => {
    let result: TurnResult | null = null;
    for await (const { final } of router.serve({ conversationId: 'a', ...request })) result = final;
    return result!;
  };
  return { conversations, ask };
}
