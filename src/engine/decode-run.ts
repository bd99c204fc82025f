/**
 * Takes several pure decode steps at once: steps in which every running request gets one token and nothing else happens.
 * It changes queues, blocks and cache as that many beginStep() and endStep() calls would, but builds no batches or outputs.
 * For simulations, which need no device for a step and force the output tokens.
 */
import { isStreamedPrefill } from '../config/connectors.ts';
import type { Request } from './request.ts';
import type { PolicyDeps } from './scheduler.ts';

export class DecodeRun {
  readonly #deps: PolicyDeps;

  constructor(deps: PolicyDeps) {
    this.#deps = deps;
  }

  /** How many steps may be taken now. The next step after these may end a request or do something else. */
  get steps(): number {
    const { queues, config, cache } = this.#deps;
    const { running, waiting, loaded } = queues;
    const alone = waiting.length === 0 && loaded.length === 0;
    // A windowed group may free blocks at every step.
    const full = config.cache.groups.every(({ kind }) => kind === 'full');
    if (running.length === 0 || !alone || !full) return 0;
    let steps = Number.POSITIVE_INFINITY;
    for (const request of running) steps = Math.min(steps, this.#before(request));
    while (steps > 0 && !cache.canAllocate(this.#blocks(steps))) steps >>= 1;
    return steps;
  }

  shape(): { requestIds: string[]; requests: number; context: number } {
    const { running } = this.#deps.queues;
    return {
      requestIds: running.map(({ requestId }) => requestId),
      requests: running.length,
      context: running.reduce((sum, { numComputedTokens }) => sum + numComputedTokens, 0),
    };
  }

  /** `count`: at most `steps`. `onSteps` gets a number of steps taken, only the first of which may have changed blocks. */
  take(count: number, onSteps: ((steps: number) => void) | null): void {
    const { queues, config, cache, counters } = this.#deps;
    const { blockSize } = config.cache;
    for (let taken = 0; taken < count; ) {
      let steps = count - taken;
      for (const request of queues.running) {
        const computed = request.numComputedTokens;
        const inBlock = computed % blockSize;
        const last = blockSize - 1;
        // A block is allocated for its first token, and gets its hash with its last.
        if (inBlock === 0 || inBlock === last) cache.allocateSlots(request, computed, 1);
        steps = Math.min(steps, inBlock === last ? 1 : last - inBlock);
      }
      for (const request of queues.running) {
        request.advance(steps);
        request.appendForced(steps);
      }
      counters.steps += steps;
      counters.forwardPasses += steps;
      taken += steps;
      onSteps?.(steps);
    }
  }

  /** Steps before the one that ends the request. 0 if any token may end it, none is forced, or it is not just decoding. */
  #before(request: Request): number {
    const { sampling, numTokens, numComputedTokens, numOutputTokens, prompt, kvTransferParams } = request;
    const { config } = this.#deps;
    const decodes = prompt !== null && numTokens - numComputedTokens === 1;
    const endless = sampling.ignoreEos || config.eosTokenIds.length === 0;
    if (!decodes || !endless || sampling.stopTokenIds.length > 0 || isStreamedPrefill(kvTransferParams))
      return 0;
    const left = Math.min(sampling.maxTokens - numOutputTokens, config.scheduler.maxModelLen - numTokens);
    return Math.max(0, Math.min(left - 1, request.numForced));
  }

  #blocks(steps: number): number {
    const { queues, cache, config } = this.#deps;
    let needed = 0;
    for (const { numComputedTokens } of queues.running)
      needed += cache.blocksFor(numComputedTokens + steps) - cache.blocksFor(numComputedTokens);
    return needed * config.cache.groups.length;
  }
}
