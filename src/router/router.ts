/**
 * The router: serves turns. It plans each one, carries the plan out at the engines and turns their outputs into an
 * answer. It knows engines only as EngineClients, and nothing of threads, GPUs or HTTP.
 */
import type { KvTransferParams } from '../config/kv-transfer.ts';
import { type TokenIds, written } from '../config/token-ids.ts';
import { tooLong } from '../engine/request.ts';
import { withDefaults } from '../engine/sampling.ts';
import { EngineDeadError, invariant, RequestError } from '../errors.ts';
import type { TurnSide } from '../measure/spans/spans.ts';
import { type AnswerEnd, type AnswerToken, checkStop, readAnswer } from './answer.ts';
import type { Conversation, ConversationCache } from './conversations.ts';
import type { RoutedTurn } from './decision.ts';
import type { EngineClient } from './engine-client.ts';
import { orWhenRefused, withFailover } from './failover.ts';
import { type HeldForNextTurn, release } from './next-turn-hold.ts';
import { orAborted } from './or-aborted.ts';
import type { TimedOutput } from './output-stream.ts';
import { planAgain, type TurnPlan } from './plan.ts';
import type { PromptBuilder, TurnText } from './prompts.ts';
import { ServedTurn } from './served-turn.ts';
import { type PlannedEngines, type Turn, turnOutputs } from './turn-outputs.ts';
import { type PlannerDeps, planRequest } from './turn-planner.ts';
import type { TurnSpans } from './turn-spans.ts';
import type { GeneratedToken, GenerateRequest, TurnResult } from './turn-types.ts';
import type { TurnWatch } from './turn-watch.ts';
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

/** An engine is about to get a request of a turn. */
export interface RequestNotice {
  requestId: string;
  turnId: string;
  side: TurnSide;
  engineId: string;
}

export interface RouterDeps extends PlannerDeps {
  text: TurnText;
  prompts: PromptBuilder;
  conversations: ConversationCache;
  onTurn: (notice: TurnNotice) => void;
  onRequest: (notice: RequestNotice) => void;
  /**
   * The longest prompt that engines accept, in tokens. A longer one is refused before the conversation's hold is
   * taken. Default: unlimited.
   */
  maxModelLen?: number;
  /** Called when a turn has ended well. */
  onTurnEnd?: (result: TurnResult) => void;
  /** Creates an unguessable id from a name. */
  newId: (name: string) => string;
  spans: TurnSpans;
}

export class Router {
  readonly turnsAt = new TurnsByEngine();
  readonly #deps: RouterDeps;
  #accepted = 0;

  constructor(deps: RouterDeps) {
    this.#deps = deps;
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
      try {
        for await (const item of answer) yield this.#token(item, request, served);
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        end(failure);
        spans.turnEnds(served);
      }
    } finally {
      conversations.close(conversation);
    }
  }

  /**
   * Plans the turn without asking any engine. `end`: call when no more of the answer is read, with the error that
   * ended it or null.
   */
  async #begin(
    request: GenerateRequest,
    conversation: Conversation,
    acceptedMs: number,
  ): Promise<{
    served: ServedTurn;
    answer: AsyncIterable<AnswerToken>;
    end: (failure: unknown) => void;
  }> {
    const { conversations, prompts, text } = this.#deps;
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
    const number = this.#accepted++;
    const turn = conversation.turns + 1;
    const turnId = `${conversation.id}#${turn}.${number + 1}`;
    const notice = { turnId, conversationId: conversation.id, turn, promptTokenIds, atMs: acceptedMs };
    const refused = tooLong(promptTokenIds.length, this.#deps.maxModelLen ?? Number.POSITIVE_INFINITY);
    if (refused !== null) {
      this.#deps.onTurn({ ...notice, routed: null });
      throw new RequestError(`request ${turnId}: ${refused}`);
    }
    const held = conversations.takeHeld(conversation);
    const accepted = { number, acceptedMs, promptTokenIds };
    const { plan, watch, routed } = planRequest(this.#deps, request, conversation, accepted, held);
    const offered = plan?.way !== 'alone' && plan?.load ? held : null;
    if (held && !offered) release(held);
    const heldTokens = offered?.params.remote_num_tokens ?? 0;
    const onEngines = request.onEngines ?? (() => {});
    const facts = { turnId, conversation, promptTokenIds, heldTokens, acceptedMs, routed, onEngines };
    const served = new ServedTurn(facts);
    this.#deps.onTurn({ ...notice, routed });
    // Created only if needed: with many short turns, AbortControllers would be most of the objects allocated.
    const stopping = request.stop?.length ? new AbortController() : null;
    const turnRequest: Omit<Turn, 'requestIds'> = {
      promptTokenIds,
      sampling: withDefaults(request.sampling),
      cacheSalt: request.cacheSalt ?? null,
      acceptedMs,
      remote: offered && offerOf(offered),
      pull: request.pull ?? null,
      signal: request.signal ?? null,
      stopped: stopping?.signal ?? null,
    };
    const leaveHolder = this.turnsAt.enter(offered ? [offered.holder.engineId] : []);
    let holdSettled = offered === null;
    const settleHold = (): void => {
      if (!holdSettled) release(offered!);
      holdSettled = true;
      leaveHolder();
    };
    const outputs = request.failover
      ? this.#withFailover(served, turnRequest, plan, watch, settleHold)
      : this.#runOrCompute(served, turnRequest, plan!, watch);
    const answer = readAnswer(outputs, {
      decoder: text.tokenizer.streamDecoder({
        skipSpecialTokens: request.skipSpecialTokens ?? false,
        after: promptTokenIds,
      }),
      eosTokenIds: text.architecture.eosTokenIds,
      stop: request.stop ?? [],
      includeStop: request.includeStop ?? false,
      minTokens: turnRequest.sampling.minTokens,
      onStop: () => stopping?.abort(),
      onlyEnd: request.onlyEnd ?? false,
    });
    const end = (failure: unknown): void => {
      // P ended, perhaps before it read the hold, which may still be good for the next turn.
      if (!holdSettled && failure instanceof EngineDeadError && !served.prefilled && !offered!.holder.ended) {
        holdSettled = true;
        leaveHolder();
        conversations.returnHeld(conversation, offered!);
      }
      // Nobody will read the hold any more. P notifies D only after a successful pull, and that message may be lost.
      settleHold();
      watch.ended();
    };
    return { served, answer, end };
  }

  /**
   * Yields what the plan's engines give and, after a failure, what others give. `beforeRetry`: called before another
   * attempt begins.
   */
  #withFailover(
    served: ServedTurn,
    turnRequest: Omit<Turn, 'requestIds'>,
    plan: TurnPlan | null,
    watch: TurnWatch,
    beforeRetry: () => void,
  ): AsyncIterable<TimedOutput> {
    const alone = new Set<string>(plan?.way === 'alone' ? [plan.engineId] : []);
    const next = (): AsyncIterable<TimedOutput> | null => {
      const { clock, engines, placement, routing } = this.#deps;
      const views = routing(null).views.of(engines(), clock.now());
      const other = planAgain(turnRequest.promptTokenIds.length, views, alone, placement);
      if (!other) return null;
      alone.add(other.engineId);
      beforeRetry();
      watch.planned(other);
      return this.#run(
        served,
        { ...turnRequest, remote: null },
        this.#enginesFor(other),
        watch,
        `-again${alone.size}`,
      );
    };
    if (plan) return withFailover(this.#run(served, turnRequest, this.#enginesFor(plan), watch, ''), next);
    const first = next();
    if (!first) throw new EngineDeadError('no engine is alive: wait until one has been restarted');
    const ended = 'no live engine takes the turn: wait until those that ended have been restarted';
    return withFailover(first, next, new EngineDeadError(ended));
  }

  /**
   * If the offered hold is gone, P computes: the hold may expire while the request waits in P's queue, or have been read by a P
   * that ended. Both attempts go to the same engines, which no plan sees any more if they have begun to leave meanwhile.
   */
  #runOrCompute(
    served: ServedTurn,
    turnRequest: Omit<Turn, 'requestIds'>,
    plan: TurnPlan,
    watch: TurnWatch,
  ): AsyncIterable<TimedOutput> {
    const way = this.#enginesFor(plan);
    const first = this.#run(served, turnRequest, way, watch, '');
    if (!turnRequest.remote || plan.way === 'alone') return first;
    return orWhenRefused(
      first,
      () => !served.prefilled,
      () => {
        watch.planned({ ...plan, load: null });
        return this.#run(served, { ...turnRequest, remote: null }, way, watch, '-again');
      },
    );
  }

  async *#run(
    served: ServedTurn,
    turnRequest: Omit<Turn, 'requestIds'>,
    way: PlannedEngines,
    watch: TurnWatch,
    attempt: string,
  ): AsyncGenerator<TimedOutput> {
    const { newId } = this.#deps;
    const { turnId } = served.facts;
    const requestIds = {
      prefill: newId(`${turnId}${attempt || '-p'}`),
      decode: newId(`${turnId}${attempt}-d`),
    };
    served.beginAttempt(way);
    const ids = engineIdsOf(way);
    served.facts.onEngines?.(ids);
    if (way.way === 'alone') this.#attribute(turnId, requestIds, 'prefill', way.engine);
    else
      for (const side of ['prefill', 'decode'] as const) this.#attribute(turnId, requestIds, side, way[side]);
    const leave = this.turnsAt.enter(ids.prefill === null ? [ids.decode] : [ids.prefill, ids.decode]);
    try {
      for await (const item of turnOutputs(way, Object.assign({ requestIds }, turnRequest))) {
        served.record(item);
        watch.received(item);
        if (item.answers) yield item;
      }
    } finally {
      leave();
    }
  }

  /** From here on, spans and events of the request are attributed to the turn. */
  #attribute(
    turnId: string,
    requestIds: Turn['requestIds'],
    side: TurnSide,
    { engineId }: EngineClient,
  ): void {
    const requestId = requestIds[side];
    this.#deps.spans.attribute(requestId, { turnId, side });
    this.#deps.onRequest({ requestId, turnId, side, engineId });
  }

  #enginesFor(plan: TurnPlan): PlannedEngines {
    const engines = this.#deps.engines();
    const engine = (id: string): EngineClient => {
      const found = engines.find(({ engineId }) => engineId === id);
      invariant(found, () => `a plan names engine ${id}, which does not exist`);
      return found;
    };
    if (plan.way === 'alone') return { way: 'alone', engine: engine(plan.engineId) };
    return { way: plan.way, prefill: engine(plan.prefill), decode: engine(plan.decode) };
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

/** A copy of the parameters with the number of requests at their holder. */
const offerOf = ({ params, holder }: HeldForNextTurn): KvTransferParams =>
  Object.assign({}, params, { remote_num_requests: holder.load.inFlight });

const engineIdsOf = (way: PlannedEngines) =>
  way.way === 'alone'
    ? { prefill: null, decode: way.engine.engineId }
    : { prefill: way.prefill.engineId, decode: way.decode.engineId };
