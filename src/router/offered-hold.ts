/** A hold offered to a turn's P, until the turn needs it no more: its blocks are then freed, or kept for the next turn. */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import type { Conversation } from './conversation.ts';
import type { ConversationCache } from './conversations.ts';
import type { EngineClient } from './engine-client.ts';
import { type HeldForNextTurn, release } from './next-turn-hold.ts';
import type { TurnsByEngine } from './turns-by-engine.ts';

export class OfferedHold {
  readonly #held: HeldForNextTurn;
  readonly #leaveHolder: () => void;
  #settled = false;

  constructor(held: HeldForNextTurn, turnsAt: TurnsByEngine) {
    this.#held = held;
    this.#leaveHolder = turnsAt.enter([held.holder.engineId]);
  }

  get holder(): EngineClient {
    return this.#held.holder;
  }

  get tokens(): number {
    return this.#held.params.remote_num_tokens ?? 0;
  }

  /** A P that ended may have read it. The holder then no longer has it. */
  get mayBeRead(): boolean {
    return this.#held.returned ?? false;
  }

  /** A copy of the parameters with the number of requests at their holder. */
  params(): KvTransferParams {
    return Object.assign({}, this.#held.params, { remote_num_requests: this.holder.load.inFlight });
  }

  /** Nobody will read the hold any more. P notifies D only after a successful pull, and that message may be lost. */
  free(): void {
    if (!this.#settled) release(this.#held);
    this.#settle();
  }

  /** P ended, perhaps before it read the hold, which may still be good for the conversation's next turn. */
  returnTo(conversations: ConversationCache, conversation: Conversation): void {
    if (!this.#settled) conversations.returnHeld(conversation, this.#held);
    this.#settle();
  }

  #settle(): void {
    this.#settled = true;
    this.#leaveHolder();
  }
}
