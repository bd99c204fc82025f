/** One turn while it is served: what its engines have given so far, and what is reported of it. */

import type { KvTransferParams } from '../config/kv-transfer.ts';
import { appended, joined, type TokenIds } from '../config/token-ids.ts';
import type { FinishReason, PromptAccount } from '../engine/types.ts';
import { InternalError } from '../errors.ts';
import { type RawSpan, routerSpan, SERVED_AGAIN, type Span, type TurnSide } from '../measure/spans/spans.ts';
import { turnStages } from '../measure/spans/stages.ts';
import { sumOf } from '../sum.ts';
import { noStages } from '../transport/transfer.ts';
import type { TransferResult, TransferStages } from '../transport/types.ts';
import type { AnswerEnd } from './answer.ts';
import type { Conversation, TurnStart } from './conversation.ts';
import { type RoutedTurn, routeSpan } from './decision.ts';
import type { EngineClient } from './engine-client.ts';
import type { PlannedEngines, TurnOutput } from './turn-outputs.ts';
import type { FailedTurn, GenerateRequest, TransferSummary, TurnResult } from './turn-types.ts';

export interface TurnFacts {
  turnId: string;
  conversation: Conversation;
  promptTokenIds: TokenIds;
  /** Tokens that D held and offered; 0 if it offered none. */
  heldTokens: number;
  /** The router's acceptance, in milliseconds on the shared clock. */
  acceptedMs: number;
  /** How it was routed; null: its engines ended before it began, and other engines served it. */
  routed: RoutedTurn | null;
  /** The turn was served before and taken back, as an audit does. */
  again: boolean;
  /** Called with the engines that serve the turn, at its start and again for each further attempt. */
  onEngines?: NonNullable<GenerateRequest['onEngines']>;
}

export class ServedTurn {
  readonly facts: TurnFacts;
  outputTokenIds: TokenIds = [];
  text = '';
  #way: PlannedEngines | null = null;
  /** The last output of each side. */
  #lastOutputs: Partial<Record<TurnSide, TurnOutput>> = {};
  #decodeHitTokens = 0;
  readonly #spans: Span[] = [];
  #firstMs: number | null = null;
  #lastMs = 0;

  constructor(facts: TurnFacts) {
    this.facts = facts;
  }

  /** Starts an attempt with these engines. Outputs of an earlier attempt are no part of the result. */
  beginAttempt(way: PlannedEngines): void {
    this.#way = way;
    this.#lastOutputs = {};
    this.#decodeHitTokens = 0;
  }

  record(received: TurnOutput): void {
    const { side, output } = received;
    this.#lastOutputs[side] = received;
    if (side === 'decode') this.#decodeHitTokens = output.prompt?.localHitTokens ?? this.#decodeHitTokens;
  }

  /** Returns the token's index in the answer. */
  add(tokenId: number, text: string, atMs: number): number {
    this.addAll([tokenId], text, atMs);
    return this.outputTokenIds.length - 1;
  }

  addAll(tokenIds: TokenIds, text: string, atMs: number): void {
    this.#firstMs ??= atMs;
    this.#lastMs = atMs;
    this.text += text;
    this.outputTokenIds = appended(this.outputTokenIds, tokenIds);
  }

  /**
   * Adds a span of one of the turn's requests. Spans that begin after the first token are ignored: they belong to no
   * stage before it.
   */
  addSpan(span: Span): void {
    if (this.#firstMs === null || span.startMs < this.#firstMs) this.#spans.push(span);
  }

  /**
   * Whether P, or the only engine, gave output. From then on the hold that was offered to it has been read, or will
   * not be.
   */
  get prefilled(): boolean {
    return this.#lastOutputs.prefill !== undefined;
  }

  /** What D, or the only engine, holds for the next turn; null: nothing. */
  held(): { params: KvTransferParams; holder: EngineClient } | null {
    const { decode } = this.#engines();
    const params = (this.#lastOutputs.decode ?? this.#lastOutputs.prefill)?.output.finish?.kvTransferParams;
    return params ? { params, holder: decode } : null;
  }

  /** The turn's own spans. Call after the last token. */
  ownSpans(): RawSpan[] {
    const { turnId, conversation, acceptedMs, routed, again } = this.facts;
    const tokens = this.outputTokenIds.length;
    const args = {
      ...{ conversationId: conversation.id, turn: conversation.turns, tokens },
      ...(again ? SERVED_AGAIN : {}),
    };
    return [
      ...(routed ? [routeSpan(turnId, routed)] : []),
      // The longer first: a trace draws the other below it.
      routerSpan('turn', turnId, acceptedMs, this.#lastMs, args),
      routerSpan('ttft', turnId, acceptedMs, this.#firstMs ?? acceptedMs, args),
    ];
  }

  /** The part of prompt and answer that is kept as history; null if no token ids stand for its text. */
  history(tokenIds: TokenIds, { keptTokens, unsaidEnd }: AnswerEnd, byText: boolean): TokenIds | null {
    if (keptTokens === null) return null;
    // A client that continues from text sends the template's end of turn itself, or none.
    const unsaid = byText && unsaidEnd ? 1 : 0;
    const length = this.facts.promptTokenIds.length + keptTokens - unsaid;
    return length === tokenIds.length ? tokenIds : tokenIds.slice(0, length);
  }

  /** The conversation's state before finishing this turn changes it. */
  start(): TurnStart {
    const { conversation, promptTokenIds, heldTokens } = this.facts;
    const { prefill, decode } = this.#engines();
    const localHitTokens = this.#account()?.localHitTokens ?? 0;
    return {
      turns: conversation.turns,
      historyIds: conversation.historyIds,
      messages: conversation.messages,
      text: conversation.text,
      specialTokens: conversation.specialTokens,
      tokenIds: joined(promptTokenIds, this.outputTokenIds),
      prefill,
      decode,
      localHitTokens,
      decodeHitTokens: prefill === decode ? localHitTokens : this.#decodeHitTokens,
      heldTokens,
    };
  }

  /** Call once, after the last token. `throttled`: a modelled link slowed the transfers down. */
  result(finishReason: FinishReason, throttled: boolean): TurnResult {
    const { turnId, conversation, promptTokenIds, acceptedMs, routed } = this.facts;
    const firstMs = this.#firstMs;
    const prompt = this.#account();
    if (!prompt || firstMs === null)
      throw new InternalError(`${turnId} ended without an account of its prompt`);
    const tokens = this.outputTokenIds.length;
    const { stagesMs, overlappedMs } = turnStages(this.#spans, { turnId, acceptedMs, firstTokenMs: firstMs });
    return {
      conversationId: conversation.id,
      turn: conversation.turns,
      promptTokenIds,
      outputTokenIds: this.outputTokenIds.slice(),
      text: this.text,
      finishReason,
      prompt,
      ttftMs: firstMs - acceptedMs,
      tpotMs: tokens > 1 ? (this.#lastMs - firstMs) / (tokens - 1) : null,
      latencyMs: this.#lastMs - acceptedMs,
      stagesMs,
      overlappedMs,
      transfer: {
        pToD: summarise(this.#lastOutputs.decode?.transfers ?? [], throttled),
        dToP: summarise(this.#lastOutputs.prefill?.transfers ?? [], throttled),
        storeToP: summarise(this.#lastOutputs.prefill?.loads ?? [], false),
        storeToD: summarise(this.#lastOutputs.decode?.loads ?? [], false),
      },
      routed,
    };
  }

  /** null: it was not routed. */
  failed(outcome: FailedTurn['outcome']): FailedTurn | null {
    const { conversation, acceptedMs, routed } = this.facts;
    const ttftMs = this.#firstMs === null ? null : this.#firstMs - acceptedMs;
    return (
      routed && { conversationId: conversation.id, turn: conversation.turns + 1, routed, outcome, ttftMs }
    );
  }

  #account(): PromptAccount | null {
    return this.#lastOutputs.prefill?.output.prompt ?? null;
  }

  #engines(): { prefill: EngineClient; decode: EngineClient } {
    const way = this.#way;
    if (!way) throw new InternalError(`${this.facts.turnId} has not begun`);
    return way.way === 'alone' ? { prefill: way.engine, decode: way.engine } : way;
  }
}

/** null if nothing was moved. */
function summarise(transfers: readonly TransferResult[], throttled: boolean): TransferSummary | null {
  const done = transfers.filter(({ outcome, bytes }) => outcome === 'done' && bytes > 0);
  if (done.length === 0) return null;
  const sum = (value: (result: TransferResult) => number): number => sumOf(done, value);
  const bytes = sum((r) => r.bytes);
  // A streamed READ lasts as long as P's prefill, so a rate over all of it would say nothing about the copying.
  const movedMs = sum((r) => r.movingMs ?? r.wallMs);
  const streamed = done.some(({ movingMs }) => movingMs !== null);
  const summary: TransferSummary = {
    bytes,
    blocks: sum((r) => r.blocks),
    ms: sum((r) => r.wallMs),
    gbps: movedMs > 0 ? bytes / movedMs / 1e6 : 0,
    descriptors: sum((r) => r.descriptors),
    throttled,
    stages: done.length === 1 ? done[0]!.stages : sumOfStages(done),
  };
  if (streamed) summary.movingMs = movedMs;
  if (done.some(({ tokens }) => tokens !== undefined)) summary.tokens = sum(({ tokens = 0 }) => tokens);
  return summary;
}

function sumOfStages(transfers: readonly TransferResult[]): TransferStages {
  const sums = noStages();
  for (const { stages } of transfers)
    for (const key of Object.keys(sums) as (keyof TransferStages)[]) sums[key] += stages[key];
  return sums;
}
