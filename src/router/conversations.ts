/**
 * What the router remembers of each conversation: its history as token ids, and D's kv_transfer_params of the last turn,
 * which are used once, and released when they are too old.
 */

import type { TokenIds } from '../config/token-ids.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineClient } from './engine-client.ts';
import { type HeldForNextTurn, offeredUntilMs, release } from './held.ts';
import { goesOn, type History, messagesAfter } from './history.ts';
import type { GenerateRequest, Message, PromptSource } from './turn-types.ts';

/**
 * Beyond these, the one that was not used for the longest time is forgotten, unless D still holds KV for its next turn; beyond
 * the second, whatever is held.
 */
const MOST_CONVERSATIONS = 1024;
const MOST_HELD_CONVERSATIONS = 16 * MOST_CONVERSATIONS;
/** In their histories together, whatever is held: some 300 MB with their text, and more than engines on one device hold. */
const MOST_TOKENS = 8 * 2 ** 20;

export interface Conversation extends History {
  id: string;
  turns: number;
  /** The model's special tokens were put around that text, which may have some of its own. */
  specialTokens: boolean;
  /** Conversations with another salt share nothing. */
  cacheSalt: string | null;
  /** What D holds for the next turn's P. */
  kv: HeldForNextTurn | null;
  /** What the last turn began with; null before the first, and once it was taken back. */
  before: TurnStart | null;
  /** The one without a client's id that this one goes on from, found by its history; its place is taken when the turn ends well. */
  follows: Conversation | null;
  /** It was forgotten: a turn that is under way leaves nothing behind. */
  ended: boolean;
}

/** What a conversation was when its last turn came, and what the turn found. */
export interface TurnStart {
  turns: number;
  historyIds: TokenIds;
  messages: readonly Message[] | null;
  text: string | null;
  specialTokens: boolean;
  /** Prompt and output of the turn. */
  tokenIds: TokenIds;
  /** Who computed the prompt, and who generated: the same engine when monolithic. */
  prefill: EngineClient;
  decode: EngineClient;
  /** Tokens of the prompt that each found in its own cache. */
  localHitTokens: number;
  decodeHitTokens: number;
  /** Tokens that D held and offered; 0 when it offered none. */
  heldTokens: number;
}

/** What a conversation was, when it goes on elsewhere. */
export interface ConversationHistory {
  turns: number;
  /** Prompt and answer of the last turn, and the messages that they stand for. */
  tokenIds: readonly number[];
  messages: readonly Message[];
}

/** Whether it is an id as the router makes them for those that come without: clients may not name theirs so. */
export const isAnonymous = (id: string): boolean => /^anonymous-\d+$/.test(id);

export class ConversationCache {
  /** Least recently used first. */
  readonly #conversations = new Map<string, Conversation>();
  /** Tokens in each one's history when it was last used, and in all. */
  readonly #tokens = new Map<string, number>();
  #allTokens = 0;
  /** Of turns under way, remembered or not. */
  readonly #underWay = new Set<Conversation>();
  /** What is held for these is just changing hands. */
  readonly #moving = new Map<Conversation, Promise<boolean>>();
  #anonymous = 0;
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * The conversation that a request belongs to, by its id or, when it asks for that, by its history; or a new one, which
   * is not remembered before a turn ended well: requests that fail push nobody out.
   */
  open(request: GenerateRequest): Conversation {
    const conversation = this.#opened(request);
    this.#underWay.add(conversation);
    return conversation;
  }

  /** The turn that opened it is over, however it ended. */
  close(conversation: Conversation): void {
    this.#underWay.delete(conversation);
  }

  #opened(request: GenerateRequest): Conversation {
    const cacheSalt = request.cacheSalt ?? null;
    const known = this.find(request);
    if (known) {
      if (request.conversationId !== null) return this.#keep(known);
      // What a client has named stays that client's: its history is read, and nothing of it taken.
      const follows = isAnonymous(known.id) ? known : null;
      return { ...known, id: this.#anonymousId(), kv: null, before: null, follows, ended: false };
    }
    return {
      id: request.conversationId ?? this.#anonymousId(),
      turns: 0,
      historyIds: [],
      messages: null,
      text: null,
      specialTokens: false,
      cacheSalt,
      kv: null,
      before: null,
      follows: null,
      ended: false,
    };
  }

  /** In the place of whatever has its id. */
  resume(id: string, { turns, tokenIds, messages }: ConversationHistory): void {
    this.#drop(id);
    const nothing = {
      text: null,
      specialTokens: false,
      cacheSalt: null,
      kv: null,
      before: null,
      follows: null,
      ended: false,
    };
    this.#keep({ id, turns, historyIds: tokenIds, messages, ...nothing });
  }

  /** By its id alone, whatever its salt; changes nothing. null: none. */
  known(id: string): Conversation | null {
    return this.#conversations.get(id) ?? null;
  }

  /** The one that a request would go on with, by the rules of open(); changes nothing. null: none. */
  find(request: PromptSource): Conversation | null {
    const cacheSalt = request.cacheSalt ?? null;
    const known =
      request.conversationId === null
        ? request.findConversation === true && this.#longestPrefix(request, cacheSalt)
        : this.#conversations.get(request.conversationId);
    return known && known.cacheSalt === cacheSalt ? known : null;
  }

  /**
   * Takes D's parameters out: they are good for one turn, and belong to the caller now. What is too old is released. A
   * history that was rewritten is offered them too: P compares tokens and pulls up to the first that differs.
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

  /** Of a turn that came to nothing before it was read: for the next one, unless the conversation has moved on. */
  giveBack(conversation: Conversation, held: HeldForNextTurn): void {
    const source = conversation.follows ?? conversation;
    const known = this.#conversations.get(source.id) === source;
    if (known && !source.ended && source.kv === null && this.#isOffered(held))
      source.kv = { ...held, givenBack: true };
    else release(held);
  }

  /** Those for whose next turn the engine holds KV. */
  heldAt(engineId: string): Conversation[] {
    return [...this.#conversations.values()].filter(({ kv }) => kv?.holder.engineId === engineId);
  }

  /**
   * Has what is held for the conversation taken over by another holder. Turns of it should wait for the outcome (moving).
   * False: nobody holds anything for it any more; `take` saw to the first holder either way.
   */
  move(
    conversation: Conversation,
    take: (held: HeldForNextTurn) => Promise<HeldForNextTurn | null>,
  ): Promise<boolean> {
    const moving = this.#taken(conversation, take).finally(() => this.#moving.delete(conversation));
    this.#moving.set(conversation, moving);
    return moving;
  }

  /** Resolves when what is held for it has changed hands; null: it is not just doing so. */
  moving(conversation: Conversation): Promise<unknown> | null {
    return this.#moving.get(conversation.follows ?? conversation) ?? null;
  }

  async #taken(
    conversation: Conversation,
    take: (held: HeldForNextTurn) => Promise<HeldForNextTurn | null>,
  ): Promise<boolean> {
    const { kv: held } = conversation;
    if (!held) return false;
    conversation.kv = null;
    const taken = await take(held);
    if (!taken) return false;
    // It was forgotten meanwhile, or a turn that was under way left something newer.
    if (conversation.kv || this.#conversations.get(conversation.id) !== conversation) release(taken);
    else conversation.kv = taken;
    return true;
  }

  /** A turn ended well; `historyIds`: prompt and answer, null when no ids stand for the answer's text exactly. */
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
    // Another turn of the same id may have been under way beside this one, or one of another salt came before.
    if (this.#conversations.get(conversation.id) !== conversation) this.#drop(conversation.id);
    conversation.turns++;
    conversation.before = turn.before;
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

  /** Releases what is held for it. A turn of it that is under way goes on, and is not remembered. */
  forget(id: string): void {
    for (const conversation of this.#underWay) if (conversation.id === id) conversation.ended = true;
    this.#drop(id);
  }

  #drop(id: string): void {
    const conversation = this.#conversations.get(id);
    if (!conversation) return;
    this.#leave(id);
    if (conversation.kv) release(conversation.kv);
    conversation.kv = null;
  }

  /** Releases nothing. */
  clear(): void {
    for (const id of this.#conversations.keys()) this.#leave(id);
  }

  #leave(id: string): void {
    this.#allTokens -= this.#tokens.get(id) ?? 0;
    this.#tokens.delete(id);
    this.#conversations.delete(id);
  }

  #anonymousId(): string {
    return `anonymous-${++this.#anonymous}`;
  }

  #keep(conversation: Conversation): Conversation {
    const { id, historyIds } = conversation;
    this.#leave(id);
    this.#conversations.set(id, conversation);
    // Those of a simulation are not written out.
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
    return this.#clock.now() < offeredUntilMs(kv) && !kv.holder.ended;
  }

  /** Of equally long ones the last used. */
  #longestPrefix(request: PromptSource, cacheSalt: string | null): Conversation | null {
    let best: Conversation | null = null;
    for (const conversation of this.#conversations.values()) {
      if (conversation.cacheSalt !== cacheSalt || conversation.turns === 0) continue;
      if (best && conversation.historyIds.length < best.historyIds.length) continue;
      if (goesOn(conversation, request)) best = conversation;
    }
    return best;
  }
}
