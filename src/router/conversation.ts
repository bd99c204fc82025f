/** A conversation as the router remembers it from turn to turn. */
import type { TokenIds } from '../config/token-ids.ts';
import type { EngineClient } from './engine-client.ts';
import type { History } from './history.ts';
import type { HeldForNextTurn } from './next-turn-hold.ts';
import type { Message } from './turn-types.ts';

export interface Conversation extends History {
  id: string;
  turns: number;
  /** Whether the tokenizer's special tokens were added around `text`, which may contain some of its own. */
  specialTokens: boolean;
  /** Conversations with different salts share nothing. */
  cacheSalt: string | null;
  /** What D holds for the next turn's P; null if nothing. */
  kv: HeldForNextTurn | null;
  /** State before the last turn, for takeBack(); null before the first turn and after one was taken back. */
  before: TurnStart | null;
  /** Its last turn was taken back: the next one is that turn, served again. */
  takenBack: boolean;
  /**
   * The anonymous conversation, found by its history, that this one continues. This one replaces it when the turn
   * ends well.
   */
  follows: Conversation | null;
  /** It was forgotten while a turn was under way; that turn then leaves nothing behind. */
  ended: boolean;
}

/** A conversation's state when its last turn came, and what that turn found at the engines. */
export interface TurnStart {
  turns: number;
  historyIds: TokenIds;
  messages: readonly Message[] | null;
  text: string | null;
  specialTokens: boolean;
  /** Prompt and output of the turn. */
  tokenIds: TokenIds;
  /** The engine that computed the prompt and the engine that generated; the same one when monolithic. */
  prefill: EngineClient;
  decode: EngineClient;
  /** Tokens of the prompt that each engine found in its own prefix cache. */
  localHitTokens: number;
  decodeHitTokens: number;
  /** Tokens that D held and offered; 0 if it offered none. */
  heldTokens: number;
}

/** A conversation's state, for continuing it elsewhere. */
export interface ConversationHistory {
  turns: number;
  /** Prompt and answer of the last turn. `messages` are the messages that they stand for. */
  tokenIds: readonly number[];
  messages: readonly Message[];
}

/** Before its first turn. */
export const newConversation = (id: string, cacheSalt: string | null): Conversation => ({
  id,
  turns: 0,
  historyIds: [],
  messages: null,
  text: null,
  specialTokens: false,
  cacheSalt,
  kv: null,
  before: null,
  takenBack: false,
  follows: null,
  ended: false,
});
