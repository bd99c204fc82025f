/**
 * What the router remembers of each conversation: its history as token ids, and D's kv_transfer_params of the last turn,
 * which are used once and forgotten when they are too old. The defaults are those of vLLM's disagg_proxy_multiturn.py.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineHandle } from './engine-handle.ts';
import type { Message } from './types.ts';

/** Below D's TTL of 480 s, so that the router never offers blocks that are about to expire. */
export const ROUTER_TTL_MS = 450_000;

export interface Conversation {
  id: string;
  turns: number;
  /** Prompt and output of the last turn. */
  historyIds: readonly number[];
  /** The messages that historyIds stands for, the last answer included; null when the prompts came as token ids. */
  messages: readonly Message[] | null;
  /** What D holds for the next turn's P. */
  kv: { params: KvTransferParams; holder: EngineHandle; atMs: number } | null;
  /** What the last turn began with; null before the first, and once it was taken back. */
  before: TurnStart | null;
}

/** What a conversation was when its last turn came, and what the turn found. */
export interface TurnStart {
  turns: number;
  historyIds: readonly number[];
  messages: readonly Message[] | null;
  /** Prompt and output of the turn. */
  tokenIds: readonly number[];
  /** Who computed the prompt, and who generated: the same engine when monolithic. */
  prefill: EngineHandle;
  decode: EngineHandle;
  /** Tokens of the prompt that each found in its own cache. */
  localHitTokens: number;
  decodeHitTokens: number;
  /** Tokens that D held and offered; 0 when it offered none. */
  heldTokens: number;
}

export class ConversationCache {
  #conversations = new Map<string, Conversation>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get(id: string): Conversation {
    let conversation = this.#conversations.get(id);
    if (!conversation) {
      conversation = { id, turns: 0, historyIds: [], messages: null, kv: null, before: null };
      this.#conversations.set(id, conversation);
    }
    return conversation;
  }

  /** null for one that is not known. */
  find(id: string | null): Conversation | null {
    return id === null ? null : (this.#conversations.get(id) ?? null);
  }

  /** Takes D's parameters out: they are good for one turn. `stale` ones must be released at their holder. */
  takeKv(conversation: Conversation): { fresh: boolean; kv: NonNullable<Conversation['kv']> } | null {
    const { kv } = conversation;
    conversation.kv = null;
    if (!kv) return null;
    return { fresh: this.#clock.now() - kv.atMs < ROUTER_TTL_MS, kv };
  }

  forget(id: string): Conversation | null {
    const conversation = this.#conversations.get(id) ?? null;
    this.#conversations.delete(id);
    return conversation;
  }

  clear(): void {
    this.#conversations.clear();
  }
}
