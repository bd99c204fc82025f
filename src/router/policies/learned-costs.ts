/**
 * What prefilling, moving KV and the first step on D take on this fleet, learned from what comes true: recursive least
 * squares from a prior that is soon forgotten, and a factor for each pair of engines whose link is not like the others'.
 */
import { tokenContext } from '../../connector/policy/cost-model.ts';
import { RecursiveLeastSquares } from '../../connector/policy/recursive-least-squares.ts';

/** Milliseconds, before anything was seen. */
export interface PriorCosts {
  prefillFixedMs: number;
  prefillMsPerToken: number;
  /** For each computed token and each one before it. */
  prefillMsPerTokenContext: number;
  moveFixedMs: number;
  moveMsPerByte: number;
  /** For each request that the holder serves meanwhile. */
  moveMsPerHolderRequest: number;
  /** Of D between its KV and the first token, and more for each request it serves. */
  firstStepMs: number;
  firstStepMsPerRequest: number;
}

export interface Move {
  from: string;
  to: string;
  bytes: number;
  holderRequests: number;
}

/** How far a pair's factor follows one observation, and how far off it may be. */
const FOLLOW = 0.2;
const FACTOR = { least: 0.1, most: 10 };
/** A pair's factor is told from this many milliseconds on: below it noise is most of it. */
const LEAST_MS = 0.1;

export class LearnedCosts {
  readonly #prefill: RecursiveLeastSquares;
  readonly #move: RecursiveLeastSquares;
  /** D's first step, and how much of what waits at P is waited for: steps take several prompts. */
  readonly #rest: RecursiveLeastSquares;
  /** By holder, by reader. */
  readonly #factors = new Map<string, Map<string, number>>();
  /** No pair's is less. */
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

  /** Of tokens from position `start` on, from their first step to their last. */
  prefillMs(start: number, tokens: number): number {
    return this.#prefill.predict([1, tokens, tokenContext(start, tokens)]);
  }

  /** Until P begins, where so many milliseconds of prefill are before it. */
  waitMs(aheadMs: number): number {
    return this.#rest.predict([0, 0, aheadMs]);
  }

  moveMs({ from, to, bytes, holderRequests }: Move): number {
    return bytes > 0 ? this.#factor(from, to) * this.#move.predict([1, bytes, holderRequests]) : 0;
  }

  /** What a move takes at least, whichever the pair. */
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
    // First what all pairs have in common, then what is left to this one.
    this.#move.observe([1, bytes, holderRequests], ms);
    const expected = this.#move.predict([1, bytes, holderRequests]);
    const before = this.#factor(from, to);
    const ratio = ms / Math.max(expected, LEAST_MS);
    const factor = before + FOLLOW * (Math.min(FACTOR.most, Math.max(FACTOR.least, ratio)) - before);
    const readers = this.#factors.get(from) ?? new Map<string, number>();
    this.#factors.set(from, readers.set(to, factor));
    this.#leastFactor = Math.min(this.#leastFactor, factor);
  }

  /** `ms`: of the time to the first token, what neither prefill nor moves took. */
  firstToken(requests: number, aheadMs: number, ms: number): void {
    this.#rest.observe([1, requests, aheadMs], Math.max(0, ms));
  }

  /** The engine has ended: what was learned of its pairs is of no use. */
  forget(engineId: string): void {
    this.#factors.delete(engineId);
    for (const readers of this.#factors.values()) readers.delete(engineId);
  }

  #factor(from: string, to: string): number {
    return this.#factors.get(from)?.get(to) ?? 1;
  }
}
