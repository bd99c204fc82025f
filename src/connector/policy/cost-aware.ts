/**
 * The cost-aware pull policy: pull if the pull is predicted to end before the same tokens could be computed. It starts from a
 * calibrated profile, takes this engine's unfinished pulls and the holder's load into account, and learns from every reported
 * pull and step. Has no clock: callers measure the times.
 */
import type { CostProfile } from '../../config/cost-profile.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import type { ScheduledRequest } from '../../engine/types.ts';
import { type KvBytes, kvBytesOf, tokenContext } from './cost-model.ts';
import type { PullPolicy, PullQuestion } from './pull-policy.ts';
import { RecursiveLeastSquares } from './recursive-least-squares.ts';

export interface CostAwareDeps {
  profile: CostProfile;
  blockSize: number;
  /** By KV cache group. Default: one full group. */
  groups?: readonly KvCacheSpec[];
  /** The most rows that a step computes. */
  maxNumBatchedTokens: number;
}

export class CostAwarePolicy implements PullPolicy {
  readonly #deps: CostAwareDeps;
  readonly #kvBytes: KvBytes;
  readonly #transfer: RecursiveLeastSquares;
  readonly #prefill: RecursiveLeastSquares;
  /** Unfinished pulls by request: their bytes, and the features they were predicted from. */
  readonly #underWay = new Map<string, { bytes: number; features: readonly number[] }>();

  constructor(deps: CostAwareDeps) {
    this.#deps = deps;
    const { pull, prefill, block_bytes } = deps.profile;
    this.#kvBytes = kvBytesOf(deps.blockSize, block_bytes, deps.groups);
    this.#transfer = new RecursiveLeastSquares(
      [pull.fixed_ms, pull.ms_per_byte, 0],
      [0.5 * pull.fixed_ms + 1, 0.3 * pull.ms_per_byte + 1e-9, 0.5 * pull.fixed_ms + 5],
    );
    this.#prefill = new RecursiveLeastSquares(
      // A turn's fixed cost includes the handover, so a step's starts at 0 and is learned.
      [0, prefill.ms_per_token, prefill.ms_per_token_context],
      [
        prefill.fixed_ms + 1,
        0.3 * prefill.ms_per_token + 1e-4,
        0.5 * prefill.ms_per_token_context + 1e-3 * prefill.ms_per_token,
      ],
    );
  }

  refuse(question: PullQuestion): string | null {
    const { pullMs, recomputeMs } = this.predict(question);
    if (pullMs <= recomputeMs) return null;
    return `cost-aware: pull ~${round(pullMs)} ms > recompute ~${round(recomputeMs)} ms`;
  }

  /** What each choice is predicted to add to TTFT, ms. */
  predict(question: PullQuestion): { pullMs: number; recomputeMs: number } {
    const { count, localHitTokens, promptTokens } = question;
    const { maxNumBatchedTokens } = this.#deps;
    const left = promptTokens - localHitTokens;
    const steps = Math.ceil(left / maxNumBatchedTokens);
    const stepsAfterPull = Math.ceil(Math.max(1, left - count) / maxNumBatchedTokens);
    return {
      pullMs: this.#deps.profile.pull.overhead_ms + this.#transfer.predict(this.#features(question)),
      recomputeMs: this.#prefill.predict([
        steps - stepsAfterPull,
        count,
        tokenContext(localHitTokens, count),
      ]),
    };
  }

  /** The parts of a pull's predicted time, ms: overhead around any transfer, fixed waiting, and moving bytes. */
  partsOf(question: PullQuestion): { overheadMs: number; fixedMs: number; movingMs: number } {
    const [one, bytes, requests] = this.#features(question) as [number, number, number];
    const fixedMs = this.#transfer.predict([one, 0, requests]);
    const movingMs = this.#transfer.predict([0, bytes, 0]);
    return { overheadMs: this.#deps.profile.pull.overhead_ms, fixedMs, movingMs };
  }

  /** A pull starts. */
  started(requestId: string, question: PullQuestion): void {
    const features = this.#features(question);
    this.#underWay.set(requestId, { bytes: this.#bytes(question), features });
  }

  /** The pull ended after `wallMs` ms; null if it failed, and nothing is learned. */
  ended(requestId: string, wallMs: number | null): void {
    const pull = this.#underWay.get(requestId);
    this.#underWay.delete(requestId);
    if (pull && wallMs !== null) this.#transfer.observe(pull.features, wallMs);
  }

  /** A step with these requests ran for `ms` ms. */
  stepRan(requests: readonly Pick<ScheduledRequest, 'startPosition' | 'tokenIds'>[], ms: number): void {
    const tokens = requests.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    const context = requests.reduce(
      (sum, { startPosition, tokenIds }) => sum + tokenContext(startPosition, tokenIds.length),
      0,
    );
    if (tokens > 0) this.#prefill.observe([1, tokens, context], ms);
  }

  #bytes({ localHitTokens, count }: PullQuestion): number {
    return this.#kvBytes(localHitTokens, count);
  }

  /** Unfinished pulls are ahead of this one on the same link. */
  #features(question: PullQuestion): readonly number[] {
    let ahead = 0;
    for (const { bytes } of this.#underWay.values()) ahead += bytes;
    return [1, this.#bytes(question) + ahead, question.holderRequests ?? 0];
  }
}

const round = (ms: number): string => (ms < 10 ? ms.toFixed(1) : ms.toFixed(0));
