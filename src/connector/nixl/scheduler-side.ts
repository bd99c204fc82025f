/**
 * Scheduler side of the NIXL connector: decides how much to pull from which engine, and what to hold for readers and until
 * when. Pull mode, following vLLM's nixl/pull_scheduler.py; differences are noted where they occur. Moves no bytes. Never
 * modifies a request's parameters; it records here which have been used.
 */

import { isStreamedPrefill } from '../../config/connectors.ts';
import type { KvCacheSpec } from '../../config/engine.ts';
import type { KvTransferParams, NixlConfig } from '../../config/kv-transfer.ts';
import type {
  ConnectorOutput,
  ConnectorRequest,
  ConnectorStreams,
  ExternalMatch,
  KvConnectorScheduler,
  RefusedRequest,
} from '../../engine/kv-connector.ts';
import type { BlockIds, Clock, NoPull } from '../../engine/types.ts';
import { type ClaimPrefix, claimPrefix, type PrefixClaim } from '../../transport/prefix-claim.ts';
import type { ReadClaim, RemoteAddress } from '../../transport/types.ts';
import type { CostAwarePolicy } from '../policy/cost-aware.ts';
import { byCost, choosePolicy, type PullQuestion } from '../policy/pull-policy.ts';
import { Heartbeats } from './heartbeats.ts';
import type { ComputedBlocks, NixlMetadata, RecvRequest } from './metadata.ts';
import {
  missing,
  namedTokens,
  offersBlocks,
  offersStream,
  pairBlocks,
  paramsOf,
  promptBlocks,
  remoteRequest,
  remoteTable,
  roleOf,
  usableTokens,
} from './params.ts';
import { PendingMetadata } from './pending-metadata.ts';

/** engineId, host and port: this engine's side channel address, as peers know it. */
export interface NixlSchedulerDeps extends RemoteAddress {
  config: NixlConfig;
  blockSize: number;
  /** By KV cache group. */
  groups: readonly KvCacheSpec[];
  clock: Clock;
  /** Decides whether P pulls D's blocks. If null or absent, the threshold decides. */
  costAware?: CostAwarePolicy | null;
  /** See ConnectorDeps. */
  pullsAreWeighed?: boolean;
  claim?: ClaimPrefix | undefined;
}

const nothingComputed = ({ promptTokenIds, cacheSalt }: ConnectorRequest): ComputedBlocks => {
  return { blockIds: [], numTokens: 0, tokenIds: promptTokenIds, cacheSalt };
};

const noMatch = (noPull: NoPull | null): ExternalMatch => ({ tokens: 0, noPull });
const unusable = (reason: string): ExternalMatch => noMatch({ by: 'offer', reason });

export class NixlSchedulerSide implements KvConnectorScheduler<NixlMetadata>, ConnectorStreams {
  readonly #deps: NixlSchedulerDeps;
  readonly #heartbeats: Heartbeats;
  readonly #claim: ClaimPrefix;
  readonly #blockRules: Parameters<typeof usableTokens>[3];
  /** By request until it ends: claim over the hold that its parameters name. */
  readonly #held = new Map<string, PrefixClaim>();
  /** Requests whose remote blocks were pulled or released. Parameters are good for one transfer. */
  readonly #remoteBlocksProcessed = new Set<string>();
  readonly #pending = new PendingMetadata();
  /** Local requests with an unfinished streamed pull. */
  readonly #streaming = new Set<string>();

  constructor(deps: NixlSchedulerDeps) {
    this.#deps = deps;
    this.#heartbeats = new Heartbeats(deps.config.leaseMs);
    this.#claim = deps.claim ?? claimPrefix(deps.config.tokenCheck);
    const { blockSize, groups, config } = deps;
    this.#blockRules = { blockSize, groups, tokenCheck: config.tokenCheck };
  }

  onNewRequest(request: ConnectorRequest): void {
    const { requestId, kvTransferParams: params } = request;
    if (isStreamedPrefill(params)) {
      this.#pending.computed.set(requestId, nothingComputed(request));
      // Its reader may be done before it is scheduled, if a store supplied everything.
      this.#pending.reqsInBatch.add(requestId);
    }
    if (!params?.do_remote_prefill) return;
    const remote = remoteRequest(params);
    if ('missing' in remote) return;
    const { engineId, host, port, requestId: remoteRequestId } = remote;
    const held = this.#heldClaim(request, params);
    this.#heartbeats.track(requestId, { engineId, host, port, requestId: remoteRequestId, held });
  }

  /** vLLM's clean-up after a rejection. Needs a claim: a holder frees only for a reader that knows tokens and salt. */
  requestRefused({ kvTransferParams: params, promptTokenIds, cacheSalt }: RefusedRequest): void {
    if (!params || roleOf(params) === null || !offersBlocks(params)) return;
    const remote = remoteRequest(params);
    if ('missing' in remote) return;
    const { tokenIds, numTokens } = namedTokens(params, promptTokenIds);
    const held = this.#claim(tokenIds, numTokens, cacheSalt);
    this.#pending.refused.push({ remote, hold: { requestId: remote.requestId, held } });
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch {
    const { config } = this.#deps;
    const { kvTransferParams: params, promptTokenIds, requestId } = request;
    if (!params || !offersBlocks(params) || roleOf(params) === null) return noMatch(null);
    if (this.#remoteBlocksProcessed.has(requestId)) return noMatch(null);
    const fromDecode = !params.do_remote_prefill;
    if (fromDecode && !config.bidirectional) {
      return unusable('remote blocks ignored: bidirectional_kv_xfer is off');
    }
    const remote = remoteRequest(params);
    if ('missing' in remote) return unusable(missing(remote.missing));

    const usable = usableTokens(params, promptTokenIds, numComputedTokens, this.#blockRules);
    const count = usable.tokens - numComputedTokens;
    if (count <= 0) return unusable(usable.limit ?? `the local hit of ${numComputedTokens} covers it`);
    // As in vLLM, only P may prefer recomputation; D always pulls P's blocks.
    if (fromDecode) {
      const refusal = this.#refusal(params, this.#question(params, request, count, numComputedTokens));
      if (refusal !== null) {
        const by = params.pull_policy === 'never' ? 'request' : 'policy';
        return noMatch({ by, reason: usable.limit ? `${refusal} (${usable.limit})` : refusal });
      }
    }
    return { tokens: count, noPull: null };
  }

  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    numLocalComputedTokens: number,
    numExternalTokens: number,
  ): void {
    const { requestId, kvTransferParams: params } = request;
    const role = roleOf(params);
    if (!params || role === null) return;
    if (role === 'prefill' || this.#deps.config.bidirectional) this.#pending.reqsInBatch.add(requestId);
    if (this.#remoteBlocksProcessed.has(requestId)) return;
    this.#remoteBlocksProcessed.add(requestId);
    const pairs =
      numExternalTokens > 0
        ? pairBlocks(
            offersStream(params) ? 'indexes' : remoteTable(params, request.promptTokenIds, this.#deps),
            blockIds,
            numLocalComputedTokens,
            numLocalComputedTokens + numExternalTokens,
            this.#deps.blockSize,
          )
        : [];
    if (pairs.length > 0 && !params.do_remote_prefill) {
      const question = this.#question(params, request, numExternalTokens, numLocalComputedTokens);
      this.#deps.costAware?.started(requestId, question);
    }
    this.#recv(request, params, pairs, numLocalComputedTokens, numExternalTokens);
  }

  requestComputed(request: ConnectorRequest, ids: BlockIds): void {
    const { requestId, kvTransferParams, numComputedTokens: numTokens } = request;
    if (!isStreamedPrefill(kvTransferParams)) return;
    const blockIds = promptBlocks(ids, numTokens, this.#deps.blockSize);
    this.#pending.computed.set(requestId, { ...nothingComputed(request), blockIds, numTokens });
  }

  requestPreempted(request: ConnectorRequest): void {
    if (isStreamedPrefill(request.kvTransferParams))
      this.#pending.computed.set(request.requestId, nothingComputed(request));
  }

  buildConnectorMeta(): NixlMetadata {
    return this.#pending.take(this.#heartbeats.take(this.#deps.clock.now()));
  }

  metaDueMs(): number | null {
    return this.#pending.isEmpty ? this.#heartbeats.dueMs : this.#deps.clock.now();
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    for (const id of output.finishedRecving) {
      // A pull without blocks to read reports no transfer time, so it ends here.
      this.#deps.costAware?.ended(id, null);
      this.#heartbeats.untrack(id);
      this.#streaming.delete(id);
    }
  }

  requestFinished(
    request: ConnectorRequest,
    blockIds: BlockIds,
  ): { delayFree: boolean; kvTransferParams: KvTransferParams | null } {
    const noHold = { delayFree: false, kvTransferParams: null };
    const { requestId, kvTransferParams: params, status } = request;
    const role = roleOf(params);
    if (!params || role === null) return noHold;
    this.#heartbeats.untrack(requestId);
    this.#deps.costAware?.ended(requestId, null);
    this.#pending.computed.delete(requestId);
    if (this.#streaming.delete(requestId)) this.#pending.reqsToCancel.add(requestId);
    if (!this.#remoteBlocksProcessed.delete(requestId)) {
      if (isStreamedPrefill(params)) this.#pending.reqsNotProcessed.add(requestId);
      // Never scheduled: without this, its holder would keep the blocks until the lease expires.
      this.#recv(request, params, [], 0, 0);
      this.#held.delete(requestId);
      return noHold;
    }
    this.#held.delete(requestId);
    if (role === 'decode' && !this.#deps.config.bidirectional) return noHold;
    if (status !== 'finished_length_capped' && status !== 'finished_stopped') {
      this.#pending.reqsNotProcessed.add(requestId);
      return noHold;
    }
    return this.#hold(request, blockIds, role);
  }

  #question(
    params: KvTransferParams,
    request: ConnectorRequest,
    count: number,
    localHitTokens: number,
  ): PullQuestion {
    const promptTokens = request.promptTokenIds.length;
    return { count, localHitTokens, promptTokens, holderRequests: params.remote_num_requests ?? null };
  }

  #refusal({ pull_policy }: KvTransferParams, question: PullQuestion): string | null {
    const { config, costAware, pullsAreWeighed } = this.#deps;
    if (pullsAreWeighed && costAware && byCost(pull_policy)) return null;
    return choosePolicy(pull_policy ?? null, config.recomputeThreshold, costAware ?? null).refuse(question);
  }

  /** Uses the request's own salt. It equals the holder's claim if the parameters are genuine. */
  #heldClaim(request: ConnectorRequest, params: KvTransferParams): PrefixClaim {
    const known = this.#held.get(request.requestId);
    if (known) return known;
    const { tokenIds, numTokens } = namedTokens(params, request.promptTokenIds);
    const claim = this.#claim(tokenIds, numTokens, request.cacheSalt);
    this.#held.set(request.requestId, claim);
    return claim;
  }

  /** Queues a pull or, without pairs, only the notification that lets the holder free. No-op if no holder is named. */
  #recv(
    request: ConnectorRequest,
    params: KvTransferParams,
    pairs: RecvRequest['pairs'],
    numLocalTokens: number,
    numTokens: number,
  ): void {
    const { requestId, promptTokenIds, cacheSalt } = request;
    if (pairs.length === 0) this.#heartbeats.untrack(requestId);
    if (!offersBlocks(params)) return;
    const remote = remoteRequest(params);
    if ('missing' in remote) return;
    const blocksExpiryTime = params.remote_blocks_expiry_time ?? null;
    const numClaimed = pairs.length > 0 ? numLocalTokens + numTokens : 0;
    const claim: ReadClaim = {
      held: this.#heldClaim(request, params),
      prompt: this.#claim(promptTokenIds, numClaimed, cacheSalt),
    };
    const streamed = offersStream(params);
    if (streamed && pairs.length > 0) this.#streaming.add(requestId);
    const { engineId, host, port, requestId: remoteRequestId } = remote;
    const recv: RecvRequest = {
      remote: { engineId, host, port, requestId: remoteRequestId, claim, blocksExpiryTime },
      pairs,
      numTokens,
    };
    if (streamed) recv.streamed = true;
    this.#pending.reqsToRecv.set(requestId, recv);
  }

  #hold(request: ConnectorRequest, blockIds: BlockIds, role: 'prefill' | 'decode') {
    const { config, blockSize, clock } = this.#deps;
    const { requestId, numComputedTokens } = request;
    const remoteBlockIds = promptBlocks(blockIds, numComputedTokens, blockSize);
    if (remoteBlockIds.every((ids) => ids.length === 0)) {
      this.#pending.reqsNotProcessed.add(requestId);
      return { delayFree: false, kvTransferParams: null };
    }
    const deadline = clock.now() + (role === 'prefill' ? config.leaseMs : config.decoderTtlMs);
    // The last sampled token has no KV, so a reader can use only numComputedTokens.
    const tokenIds = request.allTokenIds.slice(0, numComputedTokens);
    const { cacheSalt } = request;
    const send = { blockIds: remoteBlockIds, tokenIds, cacheSalt, deadline, direction: role };
    this.#pending.reqsToSend.set(requestId, send);
    return { delayFree: true, kvTransferParams: paramsOf(requestId, send, this.#deps) };
  }
}
