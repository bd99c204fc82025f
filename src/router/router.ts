/** Serves one turn of a conversation: prompt, engines, text, and what is remembered for the next turn. The way through the engines is router.ts. */
import type { Mode } from '../config/modes.ts';
import { DEFAULT_SAMPLING } from '../engine/sampling.ts';
import type { Clock } from '../engine/types.ts';
import { EngineDeadError } from '../errors.ts';
import type { EngineHandle } from '../fleet/engine-handle.ts';
import type { ClusterNotice } from '../fleet/engine-watch.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import type { TextModel } from '../model/load.ts';
import { type AnswerEnd, type AnswerToken, readAnswer } from './answer.ts';
import { type Conversation, type ConversationCache, type HeldForNextTurn, release } from './conversations.ts';
import { withFailover } from './failover.ts';
import type { TimedOutput } from './output-stream.ts';
import type { PromptBuilder } from './prompts.ts';
import { turnStart } from './rewind.ts';
import { ServedTurn } from './served-turn.ts';
import type { TurnSpans } from './turn-spans.ts';
import type { GeneratedToken, GenerateRequest, TurnResult } from './turn-types.ts';
import { disaggregatedTurn, monolithicTurn, streamedTurn, type Turn } from './ways.ts';

export interface TurnServerDeps {
  text: TextModel;
  prompts: PromptBuilder;
  conversations: ConversationCache;
  clock: Clock;
  /** What is in force now. */
  options: () => ClusterOptions;
  pick: (role: 'prefill' | 'decode') => EngineHandle;
  tell: (notice: ClusterNotice) => void;
  spans: TurnSpans;
}

export class TurnServer {
  readonly #deps: TurnServerDeps;
  #requests = 0;

  constructor(deps: TurnServerDeps) {
    this.#deps = deps;
  }

  async *serve(request: GenerateRequest): AsyncGenerator<GeneratedToken> {
    const { clock, conversations, prompts, options, pick, tell } = this.#deps;
    const acceptedMs = clock.now();
    const conversation = conversations.open(request);
    let promptTokenIds: readonly number[];
    let historyIds: readonly number[];
    do {
      historyIds = conversation.historyIds;
      promptTokenIds = await prompts.build(request, conversation);
      // Another turn of the conversation may have ended meanwhile: what is held now goes with its history.
    } while (conversation.historyIds !== historyIds);
    request.onPrompt?.(promptTokenIds);
    const held = conversations.takeRemote(conversation, options().mode === 'bidirectional');
    const stopping = new AbortController();
    const turn: Turn = {
      requestId: `${conversation.id}#${conversation.turns + 1}.${++this.#requests}`,
      promptTokenIds,
      sampling: { ...DEFAULT_SAMPLING, ...request.sampling },
      cacheSalt: request.cacheSalt ?? null,
      remote: held && { ...held.params, remote_num_requests: held.holder.inFlight },
      pull: request.pull ?? null,
      signal: request.signal ?? null,
      stopped: stopping.signal,
    };
    tell({
      kind: 'turn',
      requestId: turn.requestId,
      conversationId: conversation.id,
      turn: conversation.turns + 1,
      promptTokenIds,
      atMs: acceptedMs,
    });
    const served = new ServedTurn(turn, conversation, pick('prefill'), pick('decode'), acceptedMs);
    const answer = readAnswer(this.#outputs(served, request, held), {
      decoder: this.#deps.text.tokenizer.streamDecoder(),
      eosTokenIds: this.#deps.text.architecture.eosTokenIds,
      stop: request.stop ?? [],
      includeStop: request.includeStop ?? false,
      minTokens: turn.sampling.minTokens,
      onStop: () => stopping.abort(),
    });
    let finished = false;
    this.#deps.spans.turnBegins(served);
    try {
      for await (const item of answer) {
        const token = this.#token(item, request, served);
        finished = token.final !== null;
        yield token;
      }
    } finally {
      // Nobody else would tell D that its blocks are free.
      if (!finished && held) release(held);
      served.forgetTransfers();
      this.#deps.spans.turnEnds(served);
    }
  }

  #outputs(
    served: ServedTurn,
    request: GenerateRequest,
    held: HeldForNextTurn | null,
  ): AsyncIterable<TimedOutput> {
    const { turn, trace, prefill, decode, conversation } = served;
    const alone = servedAlone(this.#deps.options().mode, conversation);
    const overTwo = this.#deps.options().handover === 'streamed' ? streamedTurn : disaggregatedTurn;
    const first = alone ? monolithicTurn(decode, turn, trace) : overTwo(prefill, decode, turn, trace);
    if (!request.failover) return first;
    let ways = 0;
    const next = (): AsyncIterable<TimedOutput> | null => {
      const engine = [decode, prefill].find(({ ending }) => !ending);
      if (!engine || ++ways > 2) return null;
      if (held) release(held);
      Object.assign(trace, { prefillDoneMs: null, prefillAccount: null, decodeParams: null });
      return monolithicTurn(engine, { ...turn, requestId: `${turn.requestId}-again${ways}` }, trace);
    };
    const broken = decode.ending || (!alone && prefill.ending);
    const way = broken ? next() : first;
    if (!way) throw new EngineDeadError('no engine is alive: wait until one is started again');
    return withFailover(way, next);
  }

  #token(item: AnswerToken, request: GenerateRequest, served: ServedTurn): GeneratedToken {
    const { token, text, atMs, end } = item;
    const index = served.add(token.tokenId, text, atMs);
    const final = end && this.#finish(request, served, end, atMs);
    const { tokenId, logitsDigest, logits } = token;
    return { tokenId, text, index, atMs, logitsDigest, logits, final };
  }

  /** The conversation moves on, and the turn becomes its result. */
  #finish(request: GenerateRequest, served: ServedTurn, end: AnswerEnd, atMs: number): TurnResult {
    const { conversation, turn, trace, decode, prefill, text, outputTokenIds } = served;
    const alone = servedAlone(this.#deps.options().mode, conversation);
    conversation.before = turnStart(served, alone ? decode : prefill);
    const { keptTokens } = end;
    const params = trace.decodeParams;
    this.#deps.conversations.finish(conversation, request, {
      historyIds:
        keptTokens === null ? null : [...turn.promptTokenIds, ...outputTokenIds.slice(0, keptTokens)],
      text,
      kv: params && { params, holder: decode, atMs },
    });
    const result = served.result(end.reason, this.#deps.options().link !== null);
    for (const span of served.ownSpans()) this.#deps.spans.tell(span);
    return { ...result, stopReason: end.stopReason };
  }
}

/** By one engine, D. */
function servedAlone(mode: Mode, conversation: Conversation): boolean {
  return mode === 'monolithic' || (mode === 'decode-local' && conversation.turns > 0);
}
