/**
 * Learns costs from a router's turns (learned-costs.ts), and tracks by these costs how much prefill each engine still
 * has to do. Fed by a policy's observe().
 */
import type { KvBytes } from '../../connector/policy/cost-model.ts';
import type { RouteRequest, RoutingEvent } from '../plan.ts';
import { LearnedCosts, type PriorCosts } from './learned-costs.ts';
import { UnderWay } from './under-way.ts';

interface Turn {
  prefill: string;
  decode: string;
  aheadMs: number;
  workMs: number;
  decodeRequests: number;
  /** Bytes of the handover from P to D. */
  bytes: number;
  pulledMs: number;
  /** null: no handover was reported. */
  handedOverMs: number | null;
  prefilledMs: number | null;
}

/** How P gets the KV that it lacks: by computing all of it, or by pulling the part that another engine holds. */
export interface PrefillPlan {
  ms: number;
  pullTokens: number;
}

export class CostTracker {
  readonly costs: LearnedCosts;
  readonly underWay = new UnderWay();
  readonly #kvBytes: KvBytes;
  readonly #turns = new Map<number, Turn>();
  /** Predicted milliseconds of prefill that are still to be done, by engine. */
  readonly #ahead = new Map<string, number>();

  constructor(prior: PriorCosts, kvBytes: KvBytes) {
    this.costs = new LearnedCosts(prior);
    this.#kvBytes = kvBytes;
  }

  aheadMs(engineId: string): number {
    return this.#ahead.get(engineId) ?? 0;
  }

  /**
   * Predicts P's time in milliseconds, including the wait for earlier prefills. By default, in mode bidirectional,
   * held KV is pulled if that is sooner; `pull` can require or forbid it.
   */
  prefill(
    request: RouteRequest,
    engineId: string,
    pull: 'if sooner' | 'must' | 'never' = request.mode === 'bidirectional' ? 'if sooner' : 'never',
  ): PrefillPlan {
    const { held, cachedTokens, promptTokenIds } = request;
    const prompt = promptTokenIds.length;
    // At least one token is computed, for its logits.
    const has = Math.min(cachedTokens(engineId), Math.max(0, prompt - 1));
    const waitMs = this.costs.waitMs(this.aheadMs(engineId));
    const computed = { ms: waitMs + this.costs.prefillMs(has, prompt - has), pullTokens: 0 };
    if (pull === 'never' || !held || held.engineId === engineId) return computed;
    const pullTokens = Math.min(held.tokens, prompt - 1) - has;
    if (pullTokens <= 0) return computed;
    const start = has + pullTokens;
    const pullMs = this.moveMs(held.engineId, engineId, this.#kvBytes(has, pullTokens));
    const ms = waitMs + pullMs + this.costs.prefillMs(start, prompt - start);
    return pull === 'must' || ms <= computed.ms ? { ms, pullTokens } : computed;
  }

  /** Bytes of the handover: all that D lacks of the prompt. D computes the last token again. */
  handOverBytes({ promptTokenIds: { length }, cachedTokens }: RouteRequest, decode: string): number {
    const has = Math.min(length, cachedTokens(decode));
    return this.#kvBytes(has, length - has, length - 1);
  }

  moveMs(from: string, to: string, bytes: number): number {
    return this.costs.moveMs({ from, to, bytes, holderRequests: this.underWay.at(from).decodes });
  }

  observe(event: RoutingEvent): void {
    switch (event.kind) {
      case 'planned':
        this.#planned(event);
        break;
      case 'moved':
        this.#moved(event);
        break;
      case 'prefilled':
        this.#prefilled(event);
        break;
      case 'first token':
        this.#firstToken(event.number, event.ttftMs);
        break;
      case 'ended':
        this.#workDone(event.number);
        this.#turns.delete(event.number);
    }
    this.underWay.observe(event);
  }

  #planned({ number, prefill: chosen, decode, request }: Extract<RoutingEvent, { kind: 'planned' }>) {
    const prefill = chosen ?? decode;
    const aheadMs = this.aheadMs(prefill);
    const workMs = Math.max(0, this.prefill(request, prefill).ms - this.costs.waitMs(aheadMs));
    this.#ahead.set(prefill, aheadMs + workMs);
    this.#turns.set(number, {
      prefill,
      decode,
      aheadMs,
      workMs,
      decodeRequests: this.underWay.at(decode).decodes,
      bytes: prefill === decode ? 0 : this.handOverBytes(request, decode),
      pulledMs: 0,
      handedOverMs: null,
      prefilledMs: null,
    });
  }

  #moved({ number, from, to, bytes, ms }: Extract<RoutingEvent, { kind: 'moved' }>): void {
    const turn = this.#turns.get(number);
    // As when it was predicted: without the turn itself.
    const holderRequests = this.underWay.at(from).decodes - (turn?.decode === from ? 1 : 0);
    this.costs.moved({ from, to, bytes, holderRequests }, ms);
    if (to === turn?.prefill) turn.pulledMs += ms;
    else if (to === turn?.decode) turn.handedOverMs = (turn.handedOverMs ?? 0) + ms;
  }

  #prefilled({ number, ms, prompt }: Extract<RoutingEvent, { kind: 'prefilled' }>): void {
    this.#workDone(number);
    const turn = this.#turns.get(number);
    if (!turn) return;
    turn.prefilledMs = ms;
    if (!prompt) return;
    const { promptTokens, computedTokens } = prompt;
    this.costs.prefilled(promptTokens - computedTokens, computedTokens, ms);
  }

  #firstToken(number: number, ttftMs: number): void {
    this.#workDone(number);
    const turn = this.#turns.get(number);
    if (!turn || turn.prefilledMs === null) return;
    const { prefill: from, decode: to, bytes, aheadMs, pulledMs, prefilledMs, decodeRequests } = turn;
    const movedMs = turn.handedOverMs ?? this.costs.moveMs({ from, to, bytes, holderRequests: 0 });
    this.costs.firstToken(decodeRequests, aheadMs, ttftMs - prefilledMs - pulledMs - movedMs);
  }

  #workDone(number: number): void {
    const turn = this.#turns.get(number);
    if (!turn || turn.workMs === 0) return;
    const left = this.aheadMs(turn.prefill) - turn.workMs;
    turn.workMs = 0;
    // Avoids rounding residue when nothing is under way.
    if (left > 1e-6) this.#ahead.set(turn.prefill, left);
    else this.#ahead.delete(turn.prefill);
  }
}
