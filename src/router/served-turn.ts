/** One turn while it is served, and what is reported of it. */
import type { FinishReason } from '../engine/types.ts';
import { InternalError } from '../errors.ts';
import type { EngineHandle, ObservedTransfer } from '../fleet/engine-handle.ts';
import { type RawSpan, routerSpan, type Span } from '../measure/spans.ts';
import { turnStages } from '../measure/stages.ts';
import { noStages } from '../transport/transfer.ts';
import type { TransferStages } from '../transport/types.ts';
import type { Conversation } from './conversations.ts';
import type { TransferSummary, TurnResult } from './turn-types.ts';
import { decodeRequestId, prefillRequestId, type Turn, type TurnTrace } from './ways.ts';

export class ServedTurn {
  readonly turn: Turn;
  readonly conversation: Conversation;
  readonly prefill: EngineHandle;
  readonly decode: EngineHandle;
  readonly trace: TurnTrace;
  readonly outputTokenIds: number[] = [];
  text = '';
  readonly #spans: Span[] = [];
  #firstMs: number | null = null;
  #lastMs = 0;

  constructor(
    turn: Turn,
    conversation: Conversation,
    prefill: EngineHandle,
    decode: EngineHandle,
    acceptedMs: number,
  ) {
    this.turn = turn;
    this.conversation = conversation;
    this.prefill = prefill;
    this.decode = decode;
    this.trace = {
      acceptedMs,
      prefillDoneMs: null,
      prefillAccount: null,
      decodeHitTokens: 0,
      decodeParams: null,
    };
  }

  /** Returns the token's index in the answer. */
  add(tokenId: number, text: string, atMs: number): number {
    this.#firstMs ??= atMs;
    this.#lastMs = atMs;
    this.text += text;
    return this.outputTokenIds.push(tokenId) - 1;
  }

  /** A span of one of its requests. What began after the first token is of no stage before it. */
  saw(span: Span): void {
    if (this.#firstMs === null || span.startMs < this.#firstMs) this.#spans.push(span);
  }

  /** The turn as spans of its own. Call after the last token. */
  ownSpans(): RawSpan[] {
    const { turn, conversation, trace, outputTokenIds } = this;
    const args = { conversationId: conversation.id, turn: conversation.turns, tokens: outputTokenIds.length };
    return [
      routerSpan('ttft', turn.requestId, trace.acceptedMs, this.#firstMs ?? trace.acceptedMs, args),
      routerSpan('turn', turn.requestId, trace.acceptedMs, this.#lastMs, args),
    ];
  }

  /** For a turn that ended without a result. */
  forgetTransfers(): void {
    this.#takeTransfers(false);
  }

  #takeTransfers(throttled: boolean): TurnResult['transfer'] {
    return {
      dToP: summarise(this.prefill.takeTransfers(prefillRequestId(this.turn.requestId)), throttled),
      pToD: summarise(this.decode.takeTransfers(decodeRequestId(this.turn.requestId)), throttled),
    };
  }

  /** Call once, after the last token. */
  result(finishReason: FinishReason, throttled: boolean): TurnResult {
    const { turn, trace, conversation, outputTokenIds } = this;
    const firstMs = this.#firstMs;
    if (!trace.prefillAccount || firstMs === null)
      throw new InternalError(`${turn.requestId} ended without an account of its prompt`);
    const { dToP, pToD } = this.#takeTransfers(throttled);
    const tokens = outputTokenIds.length;
    return {
      conversationId: conversation.id,
      turn: conversation.turns,
      promptTokenIds: turn.promptTokenIds,
      outputTokenIds: [...outputTokenIds],
      text: this.text,
      finishReason,
      prompt: trace.prefillAccount,
      ttftMs: firstMs - trace.acceptedMs,
      tpotMs: tokens > 1 ? (this.#lastMs - firstMs) / (tokens - 1) : null,
      latencyMs: this.#lastMs - trace.acceptedMs,
      ...turnStages(this.#spans, {
        turnId: turn.requestId,
        acceptedMs: trace.acceptedMs,
        firstTokenMs: firstMs,
      }),
      transfer: { pToD, dToP },
    };
  }
}

/** null when nothing was moved. */
function summarise(transfers: readonly ObservedTransfer[], throttled: boolean): TransferSummary | null {
  const done = transfers
    .map((t) => t.result)
    .filter((result) => result.outcome === 'done' && result.bytes > 0);
  if (done.length === 0) return null;
  const sum = (value: (result: (typeof done)[number]) => number): number =>
    done.reduce((total, r) => total + value(r), 0);
  const stages = noStages();
  for (const key of Object.keys(stages) as (keyof TransferStages)[]) stages[key] = sum((r) => r.stages[key]);
  const bytes = sum((r) => r.bytes);
  // A streamed READ lasts as long as P's prefill: a rate over all of it would say nothing of the copying.
  const movedMs = sum((r) => r.movingMs ?? r.wallMs);
  const streamed = done.some(({ movingMs }) => movingMs !== null);
  return {
    bytes,
    blocks: sum((r) => r.blocks),
    ms: sum((r) => r.wallMs),
    ...(streamed ? { movingMs: movedMs } : {}),
    gbps: movedMs > 0 ? bytes / movedMs / 1e6 : 0,
    descriptors: sum((r) => r.descriptors),
    throttled,
    stages,
  };
}
