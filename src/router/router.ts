/**
 * The router: serves turns. It plans each one, carries the plan out at the engines and turns their outputs into an
 * answer. It knows engines only as EngineClients, and nothing of threads, GPUs or HTTP.
 */
import { type TokenIds, written } from '../config/token-ids.ts';
import { tooLong } from '../engine/request.ts';
import { withDefaults } from '../engine/sampling.ts';
import { EngineDeadError, RequestError } from '../errors.ts';
import { type AnswerEnd, type AnswerToken, checkStop, readAnswer } from './answer.ts';
import type { Conversation } from './conversation.ts';
import type { ConversationCache } from './conversations.ts';
import type { RoutedTurn } from './decision.ts';
import { release } from './next-turn-hold.ts';
import { OfferedHold } from './offered-hold.ts';
import { orAborted } from './or-aborted.ts';
import type { TimedOutput } from './output-stream.ts';
import type { PromptBuilder, TurnText } from './prompts.ts';
import { ServedTurn } from './served-turn.ts';
import { type AttemptDeps, type Attempted, TurnAttempts } from './turn-attempts.ts';
import { type PlannerDeps, planRequest } from './turn-planner.ts';
import type { FailedTurn, GeneratedToken, GenerateRequest, TurnResult } from './turn-types.ts';
import { TurnsByEngine } from './turns-by-engine.ts';

/** The router has accepted a turn. */
export interface TurnNotice {
  turnId: string;
  conversationId: string;
  /** Counts from 1. */
  turn: number;
  promptTokenIds: TokenIds;
  /** In milliseconds on the shared clock. */
  atMs: number;
  /** How it was routed; null: its engines ended before it began. */
  routed: RoutedTurn | null;
}

export interface RouterDeps extends PlannerDeps, AttemptDeps {
  text: TurnText;
  prompts: PromptBuilder;
  conversations: ConversationCache;
  onTurn: (notice: TurnNotice) => void;
  /**
   * The longest prompt that engines accept, in tokens. A longer one is refused before the conversation's hold is
   * taken. Default: unlimited.
   */
  maxModelLen?: number;
  /** Called when a turn has ended well. */
  onTurnEnd?: (result: TurnResult) => void;
  /** Called when a routed turn has ended otherwise. */
  onTurnFail?: (turn: FailedTurn) => void;
}

/** A turn that has begun. `end`: call when no more of the answer is read, with the error that ended it or null. */
interface BegunTurn {
  served: ServedTurn;
  answer: AsyncIterable<AnswerToken>;
  end: (failure: unknown) => void;
}

export class Router {
  /** Turns under way that need an engine: it computes for them, or holds KV offered to them. */
  readonly turnsAt = new TurnsByEngine();
  readonly #deps: RouterDeps;
  readonly #attempts: TurnAttempts;
  /** Turns planned for an engine that has not got them yet, as a D while P prefills. */
  readonly #coming = new TurnsByEngine();
  #accepted = 0;

  constructor(deps: RouterDeps) {
    this.#deps = deps;
    this.#attempts = new TurnAttempts(deps, this.turnsAt, this.#coming);
  }

  /**
   * Serves a turn and yields its tokens; the last one carries the result. If the caller stops reading, the turn is
   * aborted at its engines. Throws RequestError if the request cannot be served or the policy refuses it, the
   * signal's reason, and EngineDeadError, TransferError or RefusedError if engines or transfers failed (with failover
   * only if no other engine can serve the turn).
   */
  async *serve(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const { clock, conversations, spans } = this.#deps;
    const acceptedMs = clock.now();
    const conversation = conversations.open(request);
    try {
      const { served, answer, end } = await this.#begin(request, conversation, acceptedMs);
      spans.turnBegins(served);
      let failure: unknown = null;
      let completed = false;
      try {
        for await (const item of answer) {
          const token = this.#token(item, request, served);
          completed = token.final !== null;
          yield token;
        }
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        end(failure);
        spans.turnEnds(served);
        if (!completed)
          this.#failed(served, failure === null || request.signal?.aborted ? 'aborted' : 'failed');
      }
    } finally {
      conversations.close(conversation);
    }
  }

  async #begin(request: GenerateRequest, conversation: Conversation, acceptedMs: number): Promise<BegunTurn> {
    const { conversations, prompts } = this.#deps;
    checkStop(request.stop ?? []);
    let promptTokenIds: TokenIds;
    let historyIds: TokenIds;
    do {
      historyIds = conversation.historyIds;
      promptTokenIds = await prompts.build(request, conversation);
      const moving = conversations.moving(conversation);
      await (moving && orAborted(request.signal, moving));
      // Another turn of the conversation may have ended meanwhile; what is held now belongs to that history.
    } while (conversation.historyIds !== historyIds || conversations.moving(conversation));
    // Check before the hold is taken, so that a turn nobody waits for does not use it up.
    request.signal?.throwIfAborted();
    request.onPrompt?.(written(promptTokenIds));
    return this.#planned(request, conversation, acceptedMs, promptTokenIds);
  }

  /** Plans the turn without asking any engine, and begins it. */
  #planned(
    request: GenerateRequest,
    conversation: Conversation,
    acceptedMs: number,
    promptTokenIds: TokenIds,
  ): BegunTurn {
    const { conversations, maxModelLen, onTurn } = this.#deps;
    const number = this.#accepted++;
    const turn = conversation.turns + 1;
    const turnId = `${conversation.id}#${turn}.${number + 1}`;
    const notice = (routed: RoutedTurn | null): TurnNotice => {
      return { turnId, conversationId: conversation.id, turn, promptTokenIds, atMs: acceptedMs, routed };
    };
    const refused = tooLong(promptTokenIds.length, maxModelLen ?? Number.POSITIVE_INFINITY);
    if (refused !== null) {
      onTurn(notice(null));
      throw new RequestError(`request ${turnId}: ${refused}`);
    }
    const held = conversations.takeHeld(conversation);
    const accepted = { number, acceptedMs, promptTokenIds };
    const { plan, watch, routed } = planRequest(
      this.#deps,
      request,
      conversation,
      accepted,
      held,
      this.#coming,
    );
    const offers = held && plan?.way !== 'alone' && plan?.load;
    const offered = offers ? new OfferedHold(held, this.turnsAt) : null;
    if (held && !offered) release(held);
    const heldTokens = offered?.tokens ?? 0;
    const onEngines = request.onEngines ?? (() => {});
    const again = conversation.takenBack;
    const facts = { turnId, conversation, promptTokenIds, heldTokens, acceptedMs, routed, again, onEngines };
    const served = new ServedTurn(facts);
    onTurn(notice(routed));
    // Created only if needed: with many short turns, AbortControllers would be most of the objects allocated.
    const stopping = request.stop?.length ? new AbortController() : null;
    const attempted: Attempted = {
      served,
      turn: {
        promptTokenIds,
        sampling: withDefaults(request.sampling),
        cacheSalt: request.cacheSalt ?? null,
        acceptedMs,
        remote: offered?.params() ?? null,
        pull: request.pull ?? null,
        signal: request.signal ?? null,
        stopped: stopping?.signal ?? null,
      },
      watch,
    };
    const outputs = request.failover
      ? this.#attempts.runWithFailover(attempted, plan, () => offered?.free())
      : this.#attempts.run(attempted, plan!, offered?.mayBeRead ?? false);
    const answer = this.#answerOf(outputs, request, attempted, () => stopping?.abort());
    const end = (failure: unknown): void => {
      const pEnded = failure instanceof EngineDeadError && !served.prefilled;
      if (pEnded && offered && !offered.holder.ended) offered.returnTo(conversations, conversation);
      offered?.free();
      watch.ended();
    };
    return { served, answer, end };
  }

  #answerOf(
    outputs: AsyncIterable<TimedOutput>,
    request: GenerateRequest,
    { turn: { promptTokenIds, sampling } }: Attempted,
    onStop: () => void,
  ): AsyncIterable<AnswerToken> {
    const { tokenizer, architecture } = this.#deps.text;
    return readAnswer(outputs, {
      decoder: tokenizer.streamDecoder({
        skipSpecialTokens: request.skipSpecialTokens ?? false,
        after: promptTokenIds,
      }),
      eosTokenIds: architecture.eosTokenIds,
      stop: request.stop ?? [],
      includeStop: request.includeStop ?? false,
      minTokens: sampling.minTokens,
      onStop,
      onlyEnd: request.onlyEnd ?? false,
    });
  }

  #failed(served: ServedTurn, outcome: FailedTurn['outcome']): void {
    const failed = served.failed(outcome);
    if (failed) this.#deps.onTurnFail?.(failed);
  }

  #token(item: AnswerToken, request: GenerateRequest, served: ServedTurn): GeneratedToken {
    const { token, text, atMs, end, before } = item;
    if (before) served.addAll(before.tokenIds, before.text, before.atMs);
    const index = served.add(token.tokenId, text, atMs);
    const final = end && this.#finish(request, served, end, atMs);
    const { tokenId, logitsDigest, logits } = token;
    return { tokenId, text, index, atMs, logitsDigest, logits, final };
  }

  /** Updates the conversation and returns the turn's result. */
  #finish(request: GenerateRequest, served: ServedTurn, end: AnswerEnd, atMs: number): TurnResult {
    const { conversation } = served.facts;
    const { text } = served;
    const before = served.start();
    const held = served.held();
    this.#deps.conversations.finish(conversation, request, {
      historyIds: served.history(before.tokenIds, end, request.promptText !== undefined),
      text,
      kv: held && { params: held.params, holder: held.holder, atMs },
      before,
    });
    const result = served.result(end.reason, this.#deps.settings().throttled);
    result.stopReason = end.stopReason;
    if (this.#deps.spans.hasListeners) for (const span of served.ownSpans()) this.#deps.spans.report(span);
    this.#deps.onTurnEnd?.(result);
    return result;
  }
}
