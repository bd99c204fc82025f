/**
 * What the router remembers of each conversation: its history as token ids, and D's kv_transfer_params of the last
 * turn. The parameters are used once, and released if they become too old.
 */

import type { TokenIds } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import {
  type Conversation,
  type ConversationHistory,
  newConversation,
  type TurnStart,
} from './conversation.ts';
import { continuesHistory, messagesAfter } from './history.ts';
import { type HeldForNextTurn, offeredUntilMs, release } from './next-turn-hold.ts';
import type { GenerateRequest, PromptSource } from './turn-types.ts';

/**
 * Above MOST_CONVERSATIONS, the least recently used conversation is forgotten unless D still holds KV for its next
 * turn. Above MOST_HELD_CONVERSATIONS it is forgotten in any case.
 */
const MOST_CONVERSATIONS = 1024;
const MOST_HELD_CONVERSATIONS = 16 * MOST_CONVERSATIONS;
/**
 * Bound on the tokens of all histories together, held or not: about 300 MB with their text, and more than the engines
 * on one device can hold.
 */
const MOST_TOKENS = 8 * 2 ** 20;

/** Whether the router generated the id, for a request that came without one. Clients must not use such ids. */
export const isAnonymous = (id: string): boolean => /^anonymous-\d+$/.test(id);

export class ConversationCache {
  /** Least recently used first. */
  readonly #conversations = new Map<string, Conversation>();
  /** Tokens in each history when it was last used; #allTokens is their sum. */
  readonly #tokens = new Map<string, number>();
  #allTokens = 0;
  /** Conversations with a turn under way, remembered or not. */
  readonly #underWay = new Set<Conversation>();
  /** Conversations whose hold is being moved to another holder. */
  readonly #moving = new Map<Conversation, Promise<boolean>>();
  #anonymous = 0;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Returns the conversation that a request belongs to: found by its id or, if the request asks for that, by its
   * history; otherwise a new one. A new one is remembered only once a turn ends well, so that failing requests evict
   * nothing.
   */
  open(request: GenerateRequest): Conversation {
    const conversation = this.#findOrCreate(request);
    this.#underWay.add(conversation);
    return conversation;
  }

  /** Call when the turn that opened it is over, however it ended. */
  close(conversation: Conversation): void {
    this.#underWay.delete(conversation);
  }

  #findOrCreate(request: GenerateRequest): Conversation {
    const known = this.find(request);
    if (known) {
      if (request.conversationId !== null) return this.#keep(known);
      // A conversation that a client named stays that client's: its history is read, but its hold is not taken.
      const follows = isAnonymous(known.id) ? known : null;
      const own = { id: this.#anonymousId(), kv: null, before: null, takenBack: false, follows };
      return { ...known, ...own, ended: false };
    }
    return newConversation(request.conversationId ?? this.#anonymousId(), request.cacheSalt ?? null);
  }

  /** Starts the conversation with this history and replaces any that has its id. */
  resume(id: string, { turns, tokenIds, messages }: ConversationHistory): void {
    this.#drop(id);
    this.#keep({ ...newConversation(id, null), turns, historyIds: tokenIds, messages });
  }

  /** Looks up by id alone, ignoring the salt. Changes nothing. null: unknown. */
  known(id: string): Conversation | null {
    return this.#conversations.get(id) ?? null;
  }

  /** The conversation that open() would continue for this request. Changes nothing. null: none. */
  find(request: PromptSource): Conversation | null {
    const cacheSalt = request.cacheSalt ?? null;
    const known =
      request.conversationId === null
        ? request.findConversation === true && this.#longestPrefix(request, cacheSalt)
        : this.#conversations.get(request.conversationId);
    return known && known.cacheSalt === cacheSalt ? known : null;
  }

  /**
   * Takes D's parameters out. They are good for one turn and belong to the caller from now on; parameters that are
   * too old are released instead. They are offered even if the history was rewritten: P compares tokens and pulls up
   * to the first that differs.
   */
  takeHeld(conversation: Conversation): HeldForNextTurn | null {
    const source = conversation.follows ?? conversation;
    const { kv } = source;
    source.kv = null;
    if (!kv) return null;
    if (this.#isOffered(kv)) return kv;
    release(kv);
    return null;
  }

  /**
   * Returns the parameters of a turn that failed before they were read. The next turn uses them, unless the
   * conversation has newer ones, was forgotten, or they are too old; then they are released.
   */
  returnHeld(conversation: Conversation, held: HeldForNextTurn): void {
    const source = conversation.follows ?? conversation;
    const known = this.#conversations.get(source.id) === source;
    if (known && !source.ended && source.kv === null && this.#isOffered(held))
      source.kv = { ...held, returned: true };
    else release(held);
  }

  /** Conversations for whose next turn the engine holds KV, or held it when it ended. Without what is too old. */
  heldAt(engineId: string): Conversation[] {
    return this.#withHoldAt(engineId, (kv) => !this.#isTooOld(kv));
  }

  /** Releases what the engine holds for next turns although it is too old to be offered. Returns the number of holds. */
  releaseOld(engineId: string): number {
    const old = this.#withHoldAt(engineId, (kv) => this.#isTooOld(kv));
    for (const conversation of old) {
      release(conversation.kv!);
      conversation.kv = null;
    }
    return old.length;
  }

  #withHoldAt(engineId: string, which: (kv: HeldForNextTurn) => boolean): Conversation[] {
    const all = [...this.#conversations.values()];
    return all.filter(({ kv }) => kv?.holder.engineId === engineId && which(kv));
  }

  /**
   * Lets `take` move the conversation's hold to another holder; `take` is responsible for the first holder in every
   * case. Turns of the conversation should wait for the outcome (moving()). Resolves to false if nothing is held for
   * it afterwards.
   */
  move(
    conversation: Conversation,
    take: (held: HeldForNextTurn) => Promise<HeldForNextTurn | null>,
  ): Promise<boolean> {
    const moving = this.#moveHold(conversation, take).finally(() => this.#moving.delete(conversation));
    this.#moving.set(conversation, moving);
    return moving;
  }

  /** Resolves when the conversation's hold has been moved; null: it is not being moved. */
  moving(conversation: Conversation): Promise<unknown> | null {
    return this.#moving.get(conversation.follows ?? conversation) ?? null;
  }

  async #moveHold(
    conversation: Conversation,
    take: (held: HeldForNextTurn) => Promise<HeldForNextTurn | null>,
  ): Promise<boolean> {
    const { kv: held } = conversation;
    if (!held) return false;
    conversation.kv = null;
    const taken = await take(held);
    if (!taken) return false;
    // It was forgotten meanwhile, or a turn that was under way left a newer hold.
    if (conversation.kv || this.#conversations.get(conversation.id) !== conversation) release(taken);
    else conversation.kv = taken;
    return true;
  }

  /**
   * Call when a turn has ended well. `historyIds`: prompt and answer; null if no token ids stand for exactly the
   * answer's text.
   */
  finish(
    conversation: Conversation,
    request: GenerateRequest,
    turn: {
      historyIds: TokenIds | null;
      text: string;
      kv: HeldForNextTurn | null;
      before: TurnStart;
    },
  ): void {
    if (conversation.kv) release(conversation.kv);
    if (conversation.ended) {
      if (turn.kv) release(turn.kv);
      return;
    }
    // Another turn with the same id may have run at the same time, or one with another salt before.
    if (this.#conversations.get(conversation.id) !== conversation) this.#drop(conversation.id);
    conversation.turns++;
    conversation.before = turn.before;
    conversation.takenBack = false;
    conversation.historyIds = turn.historyIds ?? [];
    const known = turn.historyIds !== null;
    conversation.messages = known ? messagesAfter(request, turn.text) : null;
    conversation.text = known && request.promptText !== undefined ? request.promptText + turn.text : null;
    conversation.specialTokens = request.addSpecialTokens ?? false;
    conversation.kv = turn.kv;
    if (conversation.follows) {
      const { follows } = conversation;
      if (this.#conversations.get(follows.id) === follows) this.#drop(follows.id);
      conversation.follows = null;
    }
    this.#keep(conversation);
  }

  /** Forgets the conversation and releases its hold. A turn that is under way continues, but is not remembered. */
  forget(id: string): void {
    for (const conversation of this.#underWay) if (conversation.id === id) conversation.ended = true;
    this.#drop(id);
  }

  #drop(id: string): void {
    const conversation = this.#conversations.get(id);
    if (!conversation) return;
    this.#remove(id);
    if (conversation.kv) release(conversation.kv);
    conversation.kv = null;
  }

  /** Forgets all conversations without releasing their holds. */
  clear(): void {
    for (const id of this.#conversations.keys()) this.#remove(id);
  }

  #remove(id: string): void {
    this.#allTokens -= this.#tokens.get(id) ?? 0;
    this.#tokens.delete(id);
    this.#conversations.delete(id);
  }

  #anonymousId(): string {
    return `anonymous-${++this.#anonymous}`;
  }

  #keep(conversation: Conversation): Conversation {
    const { id, historyIds } = conversation;
    this.#remove(id);
    this.#conversations.set(id, conversation);
    // A simulation's token ids are not written out as arrays; they count as 0.
    const tokens = Array.isArray(historyIds) ? historyIds.length : 0;
    this.#tokens.set(id, tokens);
    this.#allTokens += tokens;
    for (const oldest of this.#conversations.values()) {
      const held = oldest.kv !== null && this.#isOffered(oldest.kv);
      const most = held ? MOST_HELD_CONVERSATIONS : MOST_CONVERSATIONS;
      if (this.#conversations.size <= most && this.#allTokens <= MOST_TOKENS) break;
      this.#drop(oldest.id);
    }
    return conversation;
  }

  #isOffered(kv: HeldForNextTurn): boolean {
    return !this.#isTooOld(kv) && !kv.holder.ended;
  }

  #isTooOld(kv: HeldForNextTurn): boolean {
    return this.#clock.now() >= offeredUntilMs(kv);
  }

  /** Of equally long histories, the most recently used. */
  #longestPrefix(request: PromptSource, cacheSalt: string | null): Conversation | null {
    let best: Conversation | null = null;
    for (const conversation of this.#conversations.values()) {
      if (conversation.cacheSalt !== cacheSalt || conversation.turns === 0) continue;
      if (best && conversation.historyIds.length < best.historyIds.length) continue;
      if (continuesHistory(conversation, request)) best = conversation;
    }
    return best;
  }
}
