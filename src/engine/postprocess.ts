/**
 * Applies what happened: sampled tokens, ended loads and reads, aborts. Removes requests from the queues and decides whether
 * their blocks are kept. Which requests run next is up to scheduler.ts.
 */
import { invariant } from '../errors.ts';
import type { ConnectorOutput } from './kv-connector.ts';
import type { Request } from './request.ts';
import type { PolicyDeps } from './scheduler.ts';
import type {
  FinishReason,
  RequestOutput,
  RequestStatus,
  SampledRow,
  SampledToken,
  ScheduledBatch,
} from './types.ts';

type FailedLoad = ConnectorOutput['failedRecving'][number];
/** Why a request ended with an error. */
type EndError = NonNullable<NonNullable<RequestOutput['finish']>['error']>;
type FinishedStatus = Extract<RequestStatus, `finished_${string}`>;

const finishReasons: Record<FinishedStatus, FinishReason> = {
  finished_stopped: 'stop',
  finished_length_capped: 'length',
  finished_aborted: 'abort',
  finished_error: 'error',
};

export class Postprocessor {
  readonly #deps: PolicyDeps;
  /** Outputs of requests that ended outside a batch: by an abort, a stop or a failed load. */
  #endings: RequestOutput[] = [];

  constructor(deps: PolicyDeps) {
    this.#deps = deps;
  }

  get hasEndings(): boolean {
    return this.#endings.length > 0;
  }

  /** Applies a batch's results and returns the outputs, including pending endings. Skips requests aborted meanwhile. */
  updateFromOutput(batch: ScheduledBatch, output: readonly SampledRow[]): RequestOutput[] {
    const { config, queues, cache, connector, counters } = this.#deps;
    let next = 0;
    const outputs: RequestOutput[] = [];
    for (const { requestId, tokenIds, sample } of batch.requests) {
      const request = queues.known.get(requestId);
      if (request?.status !== 'running') continue;
      request.advance(tokenIds.length);
      connector?.streams?.requestComputed(request, cache.blockIds(request));
      if (!sample) continue;
      // The output is nearly always in the batch's order.
      const inTurn = output[next]?.requestId === requestId;
      const index = inTurn ? next : output.findIndex((sample) => sample.requestId === requestId);
      const sampled = output[index];
      next = index + 1;
      invariant(sampled, () => `the executor returned no token for ${requestId}`);
      const forced = request.sampling.forcedTokenIds?.at(request.numOutputTokens);
      const tokenId = forced ?? sampled.tokenId;
      if (tokenId === null) {
        outputs.push(this.#finish(request, 'finished_error', [], noToken(requestId)));
        continue;
      }
      const token = tokenId === sampled.tokenId ? (sampled as SampledToken) : withId(sampled, tokenId);
      if (!request.prompt) {
        const { noPull } = request.closePrompt();
        if (noPull) counters.noPulls[noPull.by]++;
      }
      request.appendOutput(token.tokenId);
      const status = request.stopStatus(config.eosTokenIds, config.scheduler.maxModelLen);
      outputs.push(status ? this.#finish(request, status, [token], null) : outputOf(request, [token], null));
    }
    const endings = this.#endings;
    this.#endings = [];
    return [...outputs, ...endings];
  }

  /** Applies a report of the worker side. Unknown ids are ignored, since an end may be reported late or twice. */
  updateFromConnector(output: ConnectorOutput): void {
    const { queues, connector } = this.#deps;
    connector?.scheduler.updateConnectorOutput(output);
    for (const failed of output.failedRecving) this.#failLoad(failed);
    for (const id of output.finishedRecving) {
      const request = queues.known.get(id);
      if (request?.heldFor === 'load') this.#forget(request);
      else if (request && queues.loading.delete(request)) this.#completeLoad(request);
    }
    for (const id of output.finishedSending) {
      const request = queues.known.get(id);
      if (request?.heldFor === 'reader') this.#forget(request);
    }
    queues.changes++;
  }

  /** Ends a request. No-op if unknown or finished. Blocks that a load writes into are kept until the load ends. */
  finishRequest(requestId: string, status: FinishedStatus, error: EndError | null = null): void {
    const request = this.#deps.queues.known.get(requestId);
    if (request && !request.isFinished) this.#endings.push(this.#finish(request, status, [], error));
  }

  /**
   * Ends the request, or lets it compute what did not arrive. 'declined' means that the holder dropped the blocks in an
   * orderly way. That is not a fault, so these tokens are always recomputed.
   */
  #failLoad(failed: FailedLoad): void {
    const { queues, config } = this.#deps;
    const { requestId, outcome, message } = failed;
    const request = queues.known.get(requestId);
    // So that inspection shows which of an ended request's blocks arrived.
    if (request?.heldFor === 'load') request.shortenLoad(this.#validTokens(request, failed), null);
    if (!request || !queues.loading.has(request)) return;
    const policy = outcome === 'declined' ? 'recompute' : config.connector?.loadFailurePolicy;
    if (policy === 'recompute') this.#keepValidPrefix(request, failed);
    else {
      const lost = `the KV of request ${requestId} did not arrive (${outcome}): ${message}`;
      const error: EndError =
        outcome === 'refused'
          ? { code: 'refused', message }
          : { code: outcome === 'expired' ? 'expired' : 'transfer', message: lost };
      request.shortenLoad(this.#validTokens(request, failed), null);
      this.finishRequest(requestId, 'finished_error', error);
    }
  }

  /**
   * Keeps the tokens before the first invalid block, and the whole block table: the rest will be computed into it. If a
   * windowed group lacks the blocks that the next token sees, frees everything instead.
   */
  #keepValidPrefix(request: Request, failed: FailedLoad): void {
    const { cache } = this.#deps;
    const kept = this.#validTokens(request, failed);
    const noPull = { by: 'transfer', reason: `pull ${failed.outcome}: ${failed.message}` } as const;
    // Blocks were allocated only for windows at the end of the complete load.
    if (cache.sees(request, Math.min(kept, request.numTokens - 1), kept)) request.shortenLoad(kept, noPull);
    else request.loseLoad(noPull);
  }

  /** Number of leading tokens with KV: the local hit, and what arrived before the first invalid block. */
  #validTokens(request: Request, { invalidBlockIds }: FailedLoad): number {
    const { cache } = this.#deps;
    const invalid = invalidBlockIds.map((ids) => new Set(ids));
    const firsts = cache
      .blockIds(request)
      .map((ids, group) => ids.findIndex((id) => invalid[group]?.has(id)))
      .filter((index) => index >= 0);
    const valid = firsts.length > 0 ? Math.min(...firsts) * cache.blockSize : request.localHitTokens;
    return Math.max(request.localHitTokens, Math.min(request.numComputedTokens, valid));
  }

  /** The load has ended: the request continues with what arrived, or starts over if nothing can be used. */
  #completeLoad(request: Request): void {
    const { cache, queues, connector, counters } = this.#deps;
    request.status = 'waiting';
    // As with queries, only the first admission counts.
    if (request.numPreemptions === 0) counters.externalPrefixCache.hits += request.pulledTokens;
    if (request.numComputedTokens === 0) {
      cache.free(request);
      queues.waiting.unshift(request);
      return;
    }
    cache.cacheBlocks(request, request.numComputedTokens);
    // Everything was pulled: recompute the last token, in place, for its logits.
    if (request.numComputedTokens === request.numTokens) request.shortenLoad(request.numTokens - 1, null);
    queues.loaded.push(request);
    connector?.streams?.requestComputed(request, cache.blockIds(request));
  }

  #finish(request: Request, status: FinishedStatus, tokens: SampledToken[], error: EndError | null) {
    const { queues, cache, connector } = this.#deps;
    const loading = queues.loading.has(request);
    queues.remove(request);
    request.status = status;
    if (connector && !loading) cache.keepForReader(request);
    // Blocks still being loaded are not offered to readers.
    const blockIds = loading ? [] : cache.blockIds(request);
    const left = connector?.scheduler.requestFinished(request, blockIds);
    if (loading) request.heldFor = 'load';
    else if (left?.delayFree) request.heldFor = 'reader';
    else this.#forget(request);
    return outputOf(request, tokens, {
      reason: finishReasons[status],
      error,
      kvTransferParams: left?.kvTransferParams ?? null,
      numPreemptions: request.numPreemptions,
    });
  }

  #forget(request: Request): void {
    request.heldFor = null;
    this.#deps.cache.free(request);
    this.#deps.queues.known.delete(request.requestId);
  }
}

const noToken = (requestId: string): EndError => ({
  code: 'internal',
  message: `no token could be sampled for request ${requestId}: its logits are not numbers`,
});

const withId = ({ requestId, logitsDigest, logits }: SampledRow, tokenId: number): SampledToken => {
  return { requestId, tokenId, logitsDigest, logits };
};

function outputOf(request: Request, tokens: SampledToken[], finish: RequestOutput['finish']): RequestOutput {
  const { requestId, prompt, times } = request;
  return { requestId, tokens, prompt, times, finish };
}
