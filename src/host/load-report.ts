/** An engine's load for the router's thread, told after steps. Counts and costs nothing while nobody listens. */
import {
  type EngineLoad,
  type EngineQueues,
  type EngineRates,
  faded,
  RATE_WINDOW_MS,
} from '../engine/inspect/engine-load.ts';
import type { RequestOutput } from '../engine/types.ts';

/** Under load, at most one message in so many milliseconds. */
const LEAST_INTERVAL_MS = 5;

const STILL: EngineRates = { promptTokensPerSecond: 0, generationTokensPerSecond: 0, endedPerSecond: 0 };

export class LoadReport {
  #wanted = false;
  #told: EngineLoad | null = null;
  #rates = STILL;
  #ratedMs = Number.NEGATIVE_INFINITY;
  /** Whose prompts were counted, until they end. */
  readonly #counted = new Set<string>();

  /** The next take() tells, whatever was told before. */
  want(wanted: boolean): void {
    this.#wanted = wanted;
    this.#told = null;
    this.#rates = STILL;
    this.#ratedMs = Number.NEGATIVE_INFINITY;
    this.#counted.clear();
  }

  add(outputs: readonly RequestOutput[], atMs: number): void {
    if (!this.#wanted) return;
    let [promptTokens, tokens, ended] = [0, 0, 0];
    for (const { requestId, prompt, finish, tokens: sampled } of outputs) {
      tokens += sampled.length;
      if (prompt && !this.#counted.has(requestId)) {
        promptTokens += prompt.computedTokens;
        this.#counted.add(requestId);
      }
      if (!finish) continue;
      ended++;
      this.#counted.delete(requestId);
    }
    const { promptTokensPerSecond, generationTokensPerSecond, endedPerSecond } = this.#ratesAt(atMs);
    this.#ratedMs = atMs;
    const perSecond = 1000 / RATE_WINDOW_MS;
    this.#rates = {
      promptTokensPerSecond: promptTokensPerSecond + promptTokens * perSecond,
      generationTokensPerSecond: generationTokensPerSecond + tokens * perSecond,
      endedPerSecond: endedPerSecond + ended * perSecond,
    };
  }

  /** null: nobody listens, nothing changed, or the last was told just now. `idle`: nothing follows it soon, so it is told whenever it was. */
  take(queues: () => EngineQueues, atMs: number, idle: boolean): EngineLoad | null {
    if (!this.#wanted) return null;
    const last = this.#told;
    if (last && !idle && atMs - last.atMs < LEAST_INTERVAL_MS) return null;
    const now = queues();
    if (last && idle && sameQueues(last, now) && this.#ratedMs <= last.atMs) return null;
    this.#told = { ...now, ...this.#ratesAt(atMs), atMs };
    return this.#told;
  }

  #ratesAt(atMs: number): EngineRates {
    return this.#rates === STILL ? STILL : faded(this.#rates, atMs - this.#ratedMs);
  }
}

const sameQueues = (a: EngineQueues, b: EngineQueues): boolean =>
  a.running === b.running &&
  a.waiting === b.waiting &&
  a.waitingForRemote === b.waitingForRemote &&
  a.freeBlocks === b.freeBlocks;
