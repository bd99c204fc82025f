/**
 * Learns from outcomes what prefill, moving KV and D's first step cost on this fleet. Uses recursive least squares,
 * starting from a prior that is soon forgotten, and one factor for each pair of engines whose link differs from the
 * others.
 */
import { tokenContext } from '../../connector/policy/cost-model.ts';
import { RecursiveLeastSquares } from '../../connector/policy/recursive-least-squares.ts';

/** Milliseconds, assumed before any outcome is known. */
export interface PriorCosts {
  prefillFixedMs: number;
  prefillMsPerToken: number;
  /** For each pair of a computed token and a token before it. */
  prefillMsPerTokenContext: number;
  moveFixedMs: number;
  moveMsPerByte: number;
  /** For each request that the holder serves meanwhile. */
  moveMsPerHolderRequest: number;
  /** D's time from having the KV to the first token, and the addition for each request that it serves. */
  firstStepMs: number;
  firstStepMsPerRequest: number;
}

export interface Move {
  from: string;
  to: string;
  bytes: number;
  holderRequests: number;
}

/** How far one observation moves a pair's factor, and the range of factors. */
const FOLLOW = 0.2;
const FACTOR = { least: 0.1, most: 10 };
/** Expected times are taken as at least this many milliseconds in a pair's ratio; shorter times are mostly noise. */
const LEAST_MS = 0.1;

export class LearnedCosts {
  readonly #prefill: RecursiveLeastSquares;
  readonly #move: RecursiveLeastSquares;
  /**
   * D's first step, and the share of the prefill work ahead at P that a request waits for; a step computes several
   * prompts.
   */
  readonly #rest: RecursiveLeastSquares;
  /** By holder, then by reader. */
  readonly #factors = new Map<string, Map<string, number>>();
  /** Lower bound of all pairs' factors. */
  #leastFactor = 1;

  constructor(prior: PriorCosts) {
    const learned = (values: readonly number[], floors: readonly number[]) =>
      new RecursiveLeastSquares(
        values,
        values.map((value, i) => 2 * value + floors[i]!),
      );
    this.#prefill = learned(
      [prior.prefillFixedMs, prior.prefillMsPerToken, prior.prefillMsPerTokenContext],
      [5, 0.1, 1e-4],
    );
    this.#move = learned(
      [prior.moveFixedMs, prior.moveMsPerByte, prior.moveMsPerHolderRequest],
      [1, 1e-7, 1],
    );
    this.#rest = learned([prior.firstStepMs, prior.firstStepMsPerRequest, 1], [5, 1, 0]);
  }

  /** Time from the first step to the last for `tokens` tokens from position `start` on. */
  prefillMs(start: number, tokens: number): number {
    return this.#prefill.predict([1, tokens, tokenContext(start, tokens)]);
  }

  /** Time until P begins, with aheadMs milliseconds of prefill before it. */
  waitMs(aheadMs: number): number {
    return this.#rest.predict([0, 0, aheadMs]);
  }

  moveMs({ from, to, bytes, holderRequests }: Move): number {
    return bytes > 0 ? this.#factor(from, to) * this.#move.predict([1, bytes, holderRequests]) : 0;
  }

  /** Lower bound of a move's time, for any pair. */
  leastMoveMs(bytes: number): number {
    return bytes > 0 ? this.#leastFactor * this.#move.predict([1, bytes, 0]) : 0;
  }

  firstStepMs(requests: number): number {
    return this.#rest.predict([1, requests, 0]);
  }

  prefilled(start: number, tokens: number, ms: number): void {
    this.#prefill.observe([1, tokens, tokenContext(start, tokens)], ms);
  }

  moved({ from, to, bytes, holderRequests }: Move, ms: number): void {
    if (bytes <= 0) return;
    // First update what all pairs have in common, then this pair's factor.
    this.#move.observe([1, bytes, holderRequests], ms);
    const expected = this.#move.predict([1, bytes, holderRequests]);
    const before = this.#factor(from, to);
    const ratio = ms / Math.max(expected, LEAST_MS);
    const factor = before + FOLLOW * (Math.min(FACTOR.most, Math.max(FACTOR.least, ratio)) - before);
    const readers = this.#factors.get(from) ?? new Map<string, number>();
    this.#factors.set(from, readers.set(to, factor));
    this.#leastFactor = Math.min(this.#leastFactor, factor);
  }

  /** `ms`: the part of the TTFT that neither prefill nor moves took. */
  firstToken(requests: number, aheadMs: number, ms: number): void {
    this.#rest.observe([1, requests, aheadMs], Math.max(0, ms));
  }

  /** Call when the engine has ended: forgets the factors of its pairs. */
  forget(engineId: string): void {
    this.#factors.delete(engineId);
    for (const readers of this.#factors.values()) readers.delete(engineId);
  }

  #factor(from: string, to: string): number {
    return this.#factors.get(from)?.get(to) ?? 1;
  }
}
