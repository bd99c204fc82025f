/**
 * What follows from what happened: requests come, tokens were sampled, loads and reads ended, someone aborted. Takes
 * requests out of the queues and settles who keeps their blocks; who runs next is the scheduler's business.
 */
import type { EngineCoreConfig } from '../config/engine.ts';
import { invariant } from '../errors.ts';
import type { KvCacheManager } from './kv-cache-manager.ts';
import type { ConnectorOutput, KvConnectorScheduler } from './kv-connector.ts';
import { afterFailure, completeLoad, type FailedLoad, keepValidPrefix } from './remote-load.ts';
import type { Request } from './request.ts';
import type { RequestQueues } from './request-queues.ts';
import { stopStatus } from './stop.ts';
import type { FinishReason, RequestOutput, RequestStatus, SampledToken, ScheduledBatch } from './types.ts';

export interface OutcomesDeps {
  config: EngineCoreConfig;
  queues: RequestQueues;
  cache: KvCacheManager;
  connector: KvConnectorScheduler | null;
}

type LoadError = NonNullable<NonNullable<RequestOutput['finish']>['error']>;

type FinishedStatus = Extract<RequestStatus, `finished_${string}`>;

const finishReasons: Record<FinishedStatus, FinishReason> = {
  finished_stopped: 'stop',
  finished_length_capped: 'length',
  finished_aborted: 'abort',
  finished_error: 'error',
};

export class Outcomes {
  readonly #deps: OutcomesDeps;
  readonly #queues: RequestQueues;
  /** Ends that no batch produced: aborts and failed loads. */
  #endings: RequestOutput[] = [];

  constructor(deps: OutcomesDeps) {
    this.#deps = deps;
    this.#queues = deps.queues;
  }

  get hasEndings(): boolean {
    return this.#endings.length > 0;
  }

  takeEndings(): RequestOutput[] {
    const endings = this.#endings;
    this.#endings = [];
    return endings;
  }

  added(request: Request): void {
    this.#queues.known.set(request.requestId, request);
    this.#queues.waiting.push(request);
    this.#queues.stalled = false;
    this.#deps.connector?.onNewRequest(request);
  }

  /** The batch is about to run. */
  scheduled(batch: ScheduledBatch, nowMs: number): void {
    for (const { requestId } of batch.requests) {
      const request = this.#queues.known.get(requestId);
      if (request) request.times.scheduledMs ??= nowMs;
    }
  }

  /** No-op for an unknown or finished request. Blocks that a load still writes into stay until it ended. */
  aborted(requestId: string): void {
    const request = this.#queues.known.get(requestId);
    if (!request || request.isFinished) return;
    this.#endings.push(this.#finish(request, 'finished_aborted', [], null));
  }

  /**
   * Ends a request as a stop token would, with what it has so far: for stops that only its text shows. No-op for an
   * unknown or finished request.
   */
  stopped(requestId: string): void {
    const request = this.#queues.known.get(requestId);
    if (!request || request.isFinished) return;
    this.#endings.push(this.#finish(request, 'finished_stopped', [], null));
  }

  /** A batch ran. Requests that were aborted meanwhile are passed over. */
  ran(batch: ScheduledBatch, sampled: readonly SampledToken[]): RequestOutput[] {
    const { eosTokenIds, scheduler } = this.#deps.config;
    const samples = new Map(sampled.map((sample) => [sample.requestId, sample]));
    const outputs: RequestOutput[] = [];
    for (const { requestId, tokenIds, sample } of batch.requests) {
      const request = this.#queues.known.get(requestId);
      if (request?.status !== 'running') continue;
      request.advance(tokenIds.length);
      this.#deps.connector?.requestComputed(request, this.#deps.cache.blockIds(request));
      if (!sample) continue;
      const token = samples.get(requestId);
      invariant(token, () => `the executor returned no token for ${requestId}`);
      if (!request.prompt) request.closePrompt();
      request.appendOutput(token.tokenId);
      const status = stopStatus(request, eosTokenIds, scheduler.maxModelLen);
      if (status) outputs.push(this.#finish(request, status, [token], null));
      else
        outputs.push({
          requestId,
          tokens: [token],
          prompt: request.prompt,
          times: request.times,
          finish: null,
        });
    }
    return outputs;
  }

  /** What the worker side reports. Ids that nobody waits for are ignored: an end may come twice, or late. */
  transferred(output: ConnectorOutput): void {
    this.#deps.connector?.updateConnectorOutput(output);
    for (const failed of output.failedRecving) this.#failLoad(failed);
    for (const id of output.finishedRecving) {
      const request = this.#queues.known.get(id);
      if (request?.heldFor === 'load') this.#forget(request);
      else if (request && this.#queues.loading.delete(request)) this.#placeLoaded(request);
    }
    for (const id of output.finishedSending) {
      const request = this.#queues.known.get(id);
      if (request?.heldFor === 'reader') this.#forget(request);
    }
    this.#queues.stalled = false;
  }

  #failLoad(failed: FailedLoad): void {
    const request = this.#queues.known.get(failed.requestId);
    if (!request || !this.#queues.loading.has(request)) return;
    const policy = this.#deps.config.connector?.loadFailurePolicy ?? 'fail';
    if (afterFailure(failed, policy) === 'recompute') {
      keepValidPrefix(request, failed, this.#deps.cache);
      return;
    }
    const { requestId, outcome, message } = failed;
    const error: LoadError =
      outcome === 'refused'
        ? { code: 'refused', message }
        : {
            code: 'transfer',
            message: `the KV of request ${requestId} did not arrive (${outcome}): ${message}`,
          };
    this.#endings.push(this.#finish(request, 'finished_error', [], error));
  }

  #placeLoaded(request: Request): void {
    request.status = 'waiting';
    const { cache, connector } = this.#deps;
    if (completeLoad(request, cache) === 'loaded') {
      this.#queues.loaded.push(request);
      connector?.requestComputed(request, cache.blockIds(request));
    } else this.#queues.waiting.unshift(request);
  }

  #finish(
    request: Request,
    status: FinishedStatus,
    tokens: SampledToken[],
    error: LoadError | null,
  ): RequestOutput {
    const { cache, connector } = this.#deps;
    const loading = this.#queues.loading.has(request);
    this.#queues.remove(request);
    this.#queues.stalled = false;
    request.status = status;
    const left = connector?.requestFinished(request, cache.blockIds(request));
    if (loading) request.heldFor = 'load';
    else if (left?.delayFree) request.heldFor = 'reader';
    else this.#forget(request);
    const { requestId, prompt, times, numPreemptions } = request;
    const kvTransferParams = left?.kvTransferParams ?? null;
    const finish = { reason: finishReasons[status], error, kvTransferParams, numPreemptions };
    return { requestId, tokens, prompt, times, finish };
  }

  #forget(request: Request): void {
    request.heldFor = null;
    this.#deps.cache.free(request);
    this.#queues.known.delete(request.requestId);
  }
}
