/**
 * Reports a turn's progress to policies that keep state, as its outputs come, and counts it for the engines that it will
 * come to.
 */
import { enginesOf, type RouteRequest, type RoutingPolicy, type TurnPlan } from './plan.ts';
import type { TurnOutput } from './turn-outputs.ts';
import type { TurnsByEngine } from './turns-by-engine.ts';

export class TurnWatch {
  readonly #policy: RoutingPolicy;
  readonly #request: RouteRequest;
  readonly #acceptedMs: number;
  readonly #coming: TurnsByEngine;
  /** Engines that the turn is counted for as coming. */
  #comesTo: string[] = [];
  #plan: TurnPlan | null = null;
  #prefilled = false;
  #firstToken = false;
  #tokens = 0;

  /** `coming`: counts turns planned for an engine that has not got them yet. */
  constructor(policy: RoutingPolicy, request: RouteRequest, acceptedMs: number, coming: TurnsByEngine) {
    this.#policy = policy;
    this.#request = request;
    this.#acceptedMs = acceptedMs;
    this.#coming = coming;
  }

  /** Starts an attempt with this plan; an earlier attempt of the turn has ended. */
  planned(plan: TurnPlan): void {
    this.ended();
    this.#plan = plan;
    this.#prefilled = false;
    this.#comesTo = [...enginesOf(plan)];
    for (const id of this.#comesTo) this.#coming.add(id);
    const { number, promptTokenIds } = this.#request;
    const [prefill, decode] = plan.way === 'alone' ? [null, plan.engineId] : [plan.prefill, plan.decode];
    const promptTokens = promptTokenIds.length;
    this.#policy.observe?.({
      kind: 'planned',
      number,
      prefill,
      decode,
      promptTokens,
      request: this.#request,
    });
  }

  /** The engine gets its request of the turn, and counts it from now on. */
  arrives(engineId: string): void {
    const i = this.#comesTo.indexOf(engineId);
    if (i < 0) return;
    this.#comesTo.splice(i, 1);
    this.#coming.remove(engineId);
  }

  received({ side, output, atMs, transfers }: TurnOutput): void {
    const plan = this.#plan;
    if (!plan || !this.#policy.observe) return;
    const { number } = this.#request;
    const engineId = plan.way === 'alone' ? plan.engineId : plan[side];
    if (side === 'prefill' && !this.#prefilled && (output.tokens.length > 0 || output.finish)) {
      this.#prefilled = true;
      this.#moved(plan.way === 'alone' ? null : (plan.load?.from ?? null), engineId, transfers);
      const { arrivalMs, scheduledMs } = output.times;
      const ms = atMs - (scheduledMs ?? arrivalMs);
      this.#policy.observe({ kind: 'prefilled', number, engineId, ms, prompt: output.prompt });
    }
    if (side === 'prefill' && plan.way !== 'alone') return;
    this.#tokens += output.tokens.length + (output.before?.length ?? 0);
    if (this.#firstToken || output.tokens.length === 0) return;
    this.#firstToken = true;
    if (plan.way !== 'alone') this.#moved(plan.prefill, engineId, transfers);
    this.#policy.observe({ kind: 'first token', number, engineId, ttftMs: atMs - this.#acceptedMs });
  }

  /** Call when the turn is over, however it ended. */
  ended(): void {
    if (!this.#plan) return;
    this.#plan = null;
    for (const id of this.#comesTo) this.#coming.remove(id);
    this.#comesTo = [];
    const { number } = this.#request;
    this.#policy.observe?.({ kind: 'ended', number, outputTokens: this.#tokens });
    this.#tokens = 0;
  }

  #moved(from: string | null, to: string, transfers: TurnOutput['transfers']): void {
    if (from === null) return;
    const { number } = this.#request;
    for (const { outcome, bytes, wallMs: ms } of transfers)
      if (outcome === 'done' && bytes > 0)
        this.#policy.observe?.({ kind: 'moved', number, from, to, bytes, ms });
  }
}
