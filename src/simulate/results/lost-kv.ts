/**
 * KV that was held for next turns and was lost because its engine left or died: how much, and how much of it was
 * computed again.
 */
import { commonPrefixLength, type TokenIds } from '../../config/token-ids.ts';
import type { Conversation } from '../../router/conversation.ts';
import type { TurnResult } from '../../router/turn-types.ts';

/** Most conversations that are remembered; beyond these, the oldest are taken to be over. */
const MOST_CONVERSATIONS = 65_536;

export class LostKv {
  lostTokens = 0;
  recomputedTokens = 0;
  /** Tokens whose KV was lost, by conversation. */
  readonly #lost = new Map<string, TokenIds>();

  lost({ id, historyIds }: Pick<Conversation, 'id' | 'historyIds'>, tokens: number): void {
    this.lostTokens += tokens;
    this.#lost.delete(id);
    this.#lost.set(id, historyIds.slice(0, tokens));
    if (this.#lost.size > MOST_CONVERSATIONS) this.#lost.delete(this.#lost.keys().next().value!);
  }

  /**
   * The next turn needs the lost tokens up to the first that differs; those that it neither found nor pulled were
   * computed again.
   */
  turnEnded({ conversationId, promptTokenIds, prompt }: TurnResult): void {
    const lost = this.#lost.get(conversationId);
    if (!lost) return;
    this.#lost.delete(conversationId);
    const needed = commonPrefixLength(lost, promptTokenIds);
    this.recomputedTokens += Math.max(0, needed - prompt.localHitTokens - prompt.pulledTokens);
  }
}
