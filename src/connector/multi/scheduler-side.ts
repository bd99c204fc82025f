/**
 * Scheduler side of a MultiConnector: asks each child connector, and assigns each its share of a load.
 * - first-hit: vLLM's rule (multi_connector.py). The first child that has anything loads everything.
 * - max-hit: the child that has most loads everything.
 * - compose: the store loads what it has, and a peer the rest.
 * - cost-aware: the predicted fastest of store and peer, store alone, peer alone, and computing.
 */
import type { Composition } from '../../config/kv-connectors.ts';
import type { KvTransferParams } from '../../config/kv-transfer.ts';
import type {
  ConnectorOutput,
  ConnectorRequest,
  ConnectorStreams,
  ExternalMatch,
  KvConnector,
  KvConnectorScheduler,
  RefusedRequest,
} from '../../engine/kv-connector.ts';
import type { BlockIds, NoPull } from '../../engine/types.ts';
import { invariant } from '../../errors.ts';
import { byCost } from '../policy/pull-policy.ts';
import type { SourceCosts } from '../policy/source-costs.ts';
import type { SecondHops } from './second-hops.ts';

/** Metadata for the worker side. */
export interface MultiMetadata {
  /** Each child's metadata, in order. */
  metas: readonly unknown[];
  /** Requests that several children load, or hold blocks of: the number of children. */
  loads: ReadonlyMap<string, number>;
  sends: ReadonlyMap<string, number>;
}

/** The tokens [from, to) of a request, loaded by one child. */
interface Share {
  child: number;
  from: number;
  to: number;
}

export interface MultiSchedulerDeps {
  /** In configured order. */
  children: readonly KvConnector[];
  /** Index of the child that uses the store, or null. */
  store: number | null;
  composition: Composition;
  secondHops: SecondHops;
  /** null if costs are not known; cost-aware then acts like compose. */
  costs: SourceCosts | null;
}

export class MultiSchedulerSide implements KvConnectorScheduler<MultiMetadata>, ConnectorStreams {
  readonly #deps: MultiSchedulerDeps;
  /** The last answer for each request. */
  readonly #shares = new Map<string, Share[]>();
  /** For requests whose shares were chosen by cost: `settle`, to be called once the request is allocated. */
  readonly #chosen = new Map<string, () => void>();
  #loads = new Map<string, number>();
  #sends = new Map<string, number>();

  constructor(deps: MultiSchedulerDeps) {
    this.#deps = deps;
  }

  get #sides(): readonly KvConnectorScheduler[] {
    return this.#deps.children.map(({ scheduler }) => scheduler);
  }

  onNewRequest(request: ConnectorRequest): void {
    for (const side of this.#sides) side.onNewRequest(request);
  }

  requestRefused(request: RefusedRequest): void {
    for (const side of this.#sides) side.requestRefused?.(request);
  }

  getNumNewMatchedTokens(request: ConnectorRequest, numComputedTokens: number): ExternalMatch | null {
    const answer = this.#answer(request, numComputedTokens);
    if (!answer) return null;
    this.#shares.set(request.requestId, answer.shares);
    const end = answer.shares.at(-1)?.to ?? numComputedTokens;
    return { tokens: end - numComputedTokens, noPull: answer.shares.length > 0 ? null : answer.noPull };
  }

  updateStateAfterAlloc(
    request: ConnectorRequest,
    blockIds: BlockIds,
    numLocalComputedTokens: number,
    numExternalTokens: number,
  ): void {
    const { requestId } = request;
    const shares = numExternalTokens > 0 ? (this.#shares.get(requestId) ?? []) : [];
    this.#shares.delete(requestId);
    this.#chosen.get(requestId)?.();
    this.#chosen.delete(requestId);
    for (const [child, side] of this.#sides.entries()) {
      const share = shares.find((one) => one.child === child);
      if (share) side.updateStateAfterAlloc(request, blockIds, share.from, share.to - share.from);
      else side.updateStateAfterAlloc(request, blockIds, numLocalComputedTokens, 0);
    }
    if (shares.length > 1) this.#loads.set(requestId, shares.length);
    const loaded = shares.find(({ child }) => child === this.#deps.store);
    if (loaded) this.#deps.costs?.started(requestId, loaded.to - loaded.from);
    const pulled = shares.find(({ child }) => child !== this.#deps.store);
    if (pulled) this.#deps.secondHops.pulls(request, pulled.from, blockIds);
  }

  requestComputed(request: ConnectorRequest, blockIds: BlockIds): void {
    for (const { streams } of this.#deps.children) streams?.requestComputed(request, blockIds);
  }

  requestPreempted(request: ConnectorRequest): void {
    for (const { streams } of this.#deps.children) streams?.requestPreempted(request);
  }

  buildConnectorMeta(): MultiMetadata {
    const metadata = {
      metas: this.#sides.map((side) => side.buildConnectorMeta()),
      loads: this.#loads,
      sends: this.#sends,
    };
    this.#loads = new Map();
    this.#sends = new Map();
    return metadata;
  }

  metaDueMs(): number | null {
    const due = this.#sides.map((side) => side.metaDueMs()).filter((ms) => ms !== null);
    return due.length > 0 ? Math.min(...due) : null;
  }

  updateConnectorOutput(output: ConnectorOutput): void {
    // A share without blocks to load reports no transfer time, so it ends here.
    for (const requestId of output.finishedRecving) this.#deps.costs?.ended(requestId, null);
    for (const side of this.#sides) side.updateConnectorOutput(output);
  }

  requestFinished(request: ConnectorRequest, blockIds: BlockIds) {
    const { requestId } = request;
    const { secondHops } = this.#deps;
    this.#shares.delete(requestId);
    this.#chosen.delete(requestId);
    const stored = secondHops.stored(requestId);
    const left = this.#sides.map((side) => side.requestFinished(request, blockIds));
    const delays = left.filter(({ delayFree }) => delayFree).length;
    // Free the blocks once, when the last child is done.
    if (delays > 1) this.#sends.set(requestId, delays);
    const params = left.flatMap((one) => one.kvTransferParams ?? []);
    const keys = params.flatMap((one) => Object.keys(one));
    const twice = keys.find((key, i) => keys.indexOf(key) < i);
    invariant(twice === undefined, () => `two connectors leave '${twice}' for the request that follows`);
    const merged = params.length > 0 ? Object.assign({}, ...params) : null;
    return { delayFree: delays > 0, kvTransferParams: merged && withStored(merged, stored) };
  }

  #answer(request: ConnectorRequest, from: number) {
    const { composition, store, costs } = this.#deps;
    if (store === null || composition === 'first-hit' || composition === 'max-hit')
      return this.#singleSource(request, from);
    return costs && weighsCosts(composition, request)
      ? this.#cheapest(request, from, store, costs)
      : this.#compose(request, from, store);
  }

  /** One child loads everything: the first that has something (first-hit), or the one that has most (max-hit). */
  #singleSource(request: ConnectorRequest, from: number) {
    const matches = this.#sides.map((side) => side.getNumNewMatchedTokens(request, from));
    if (matches.some((match) => match === null)) return null;
    const tokens = matches.map((match) => match!.tokens);
    const target = this.#deps.composition === 'max-hit' ? Math.max(...tokens) : tokens.find((n) => n > 0);
    const child = tokens.findIndex((n) => n > 0 && n === target);
    const noPull = matches.find((match) => match!.noPull)?.noPull ?? null;
    return { shares: child < 0 ? [] : [{ child, from, to: from + tokens[child]! }], noPull };
  }

  /** The fastest of store and then peer, store alone, and peer alone; no shares if computing is faster. */
  #cheapest(request: ConnectorRequest, from: number, store: number, costs: SourceCosts) {
    const composed = this.#compose(request, from, store);
    if (!composed) return null;
    const { shares, noPull } = composed;
    const fromStore = shares.filter(({ child }) => child === store);
    // If the store has no share, the composed plan is already the peer alone.
    const alone = fromStore.length > 0 ? this.#fromPeer(request, from, store) : { shares: [] };
    if (!alone) return null;
    const plans = [shares, fromStore, alone.shares].map((some) => ({
      shares: some,
      stored: tokensIn(some.filter(({ child }) => child === store)),
      pulled: tokensIn(some.filter(({ child }) => child !== store)),
    }));
    const promptTokens = request.promptTokenIds.length;
    const holderRequests = request.kvTransferParams?.remote_num_requests ?? null;
    const { plan, settle } = costs.choose(plans, { localHitTokens: from, promptTokens, holderRequests });
    this.#chosen.set(request.requestId, settle);
    if (plan) return { shares: plan.shares, noPull: null };
    if (shares.length === 0) return { shares, noPull };
    const offered = `${tokensIn(shares)} tokens from the store and peers`;
    const refusal = {
      by: 'policy' as const,
      reason: `cost-aware: computing is faster than loading ${offered}`,
    };
    return { shares: [], noPull: refusal };
  }

  /** The share of the first peer that has anything; null if not known yet. */
  #fromPeer(request: ConnectorRequest, from: number, store: number) {
    let noPull: NoPull | null = null;
    for (const [child, side] of this.#sides.entries()) {
      if (child === store) continue;
      const match = side.getNumNewMatchedTokens(request, from);
      if (!match) return null;
      noPull ??= match.noPull;
      if (match.tokens > 0) return { shares: [{ child, from, to: from + match.tokens }], noPull };
    }
    return { shares: [], noPull };
  }

  /**
   * Loads from the store what it had before this turn, and the rest from a peer. Blocks that P saved during this turn take
   * two hops through the store, but only one from P.
   */
  #compose(request: ConnectorRequest, from: number, store: number) {
    const stored = this.#sides[store]!.getNumNewMatchedTokens(request, from);
    if (!stored) return null;
    const before = this.#deps.secondHops.storedBefore(request);
    const cut = from + Math.min(stored.tokens, Math.max(0, before - from));
    const peer = this.#fromPeer(request, cut, store);
    if (!peer) return null;
    // If no peer has the rest, load everything that the store has.
    const end = peer.shares.length > 0 ? cut : from + stored.tokens;
    const fromStore = end > from ? [{ child: store, from, to: end }] : [];
    return { shares: [...fromStore, ...peer.shares], noPull: stored.noPull ?? peer.noPull };
  }
}

/** Whether costs choose the sources. Not when D loads P's prompt: D needs all of it, and one hop is always cheapest. */
export const weighsCosts = (
  composition: Composition,
  { kvTransferParams: params }: Pick<ConnectorRequest, 'kvTransferParams'>,
): boolean =>
  composition === 'cost-aware' && byCost(params?.pull_policy) && params?.do_remote_prefill !== true;

const tokensIn = (shares: readonly Share[]): number =>
  shares.reduce((sum, { from, to }) => sum + to - from, 0);

/** Adds to P's parameters for D how many tokens the store had. */
const withStored = (params: KvTransferParams, stored: number | null): KvTransferParams =>
  params.do_remote_prefill && stored !== null ? { ...params, remote_store_num_tokens: stored } : params;
