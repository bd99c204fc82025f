/**
 * One engine's metrics under vLLM's names, labels and buckets (vllm/v1/metrics/loggers.py, and stats.py of the NIXL
 * connector), so that dashboards and autoscalers for vLLM work unchanged. Histograms come from the engine's events; gauges
 * and some counters from its state at each scrape and at its end. Nothing is kept about a request after its end.
 */
import { STORE_ADDRESS } from '../../config/connectors.ts';
import type { StoreCounters } from '../../connector/types.ts';
import type { BlockStay } from '../../engine/block-residency.ts';
import { NO_PULL_REASONS, type PromptAccount, type RequestOutput } from '../../engine/types.ts';
import type { EngineEvent, EngineStats } from '../../host/engine-report.ts';
import {
  defineEngineMetrics,
  defineResidencyMetrics,
  type EngineMetricsOptions,
  type FINISHED_REASONS,
  PLAIN_METRICS,
  PULL_FAILURES,
} from './engine-metric-names.ts';
import { type Answered, httpMetrics } from './http-metrics.ts';
import { linkMetrics } from './link-metrics.ts';
import { FollowedCounts, MetricKit } from './metric-kit.ts';
import { defineOffloadMetrics } from './store-metrics.ts';

interface Streaming {
  firstMs: number;
  lastMs: number;
  tokens: number;
  prompt: PromptAccount | null;
}

export class EngineMetrics {
  readonly #kit: MetricKit;
  readonly #m: ReturnType<typeof defineEngineMetrics>;
  readonly #offload: ReturnType<typeof defineOffloadMetrics>;
  /** null: not enabled. */
  readonly #residency: ReturnType<typeof defineResidencyMetrics> | null;
  readonly answered: (answered: Answered) => void;
  /** Requests that have produced a token and have not ended. */
  readonly #streaming = new Map<string, Streaming>();
  /** Follows the engine's own counters, which restart from 0 when it is rebuilt. */
  readonly #counts = new FollowedCounts();

  constructor(options: EngineMetricsOptions) {
    this.#kit = new MetricKit({ model_name: options.modelName, engine: options.engineIndex });
    this.#m = defineEngineMetrics(this.#kit, options);
    this.#offload = defineOffloadMetrics(this.#kit);
    this.#residency = options.kvCacheMetrics ? defineResidencyMetrics(this.#kit) : null;
    this.answered = httpMetrics(this.#kit);
    linkMetrics(this.#kit, options.links);
  }

  get contentType(): string {
    return this.#kit.contentType;
  }

  /** Records the parameters of a request to the engine's own port. Requests from the router are not counted here. */
  requested({ n, maxTokens }: { n: number; maxTokens: number }): void {
    this.#m.paramsN.observe(n);
    this.#m.paramsMaxTokens.observe(maxTokens);
  }

  onEvent(event: EngineEvent): void {
    switch (event.kind) {
      case 'outputs':
        this.#outputs(event.outputs, event.atMs);
        break;
      case 'transfer': {
        const { outcome, wallMs, movingMs, postMs, bytes, descriptors } = event.result;
        if (outcome !== 'done') break;
        if (event.remoteEngineId === STORE_ADDRESS.engineId) {
          this.#offload.loadSize.observe(bytes);
          break;
        }
        this.#m.xferTime.observe((movingMs ?? wallMs) / 1000);
        this.#m.postTime.observe(postMs / 1000);
        this.#m.bytes.observe(bytes);
        this.#m.descriptors.observe(descriptors);
        break;
      }
      case 'saved':
        if (event.remoteEngineId === STORE_ADDRESS.engineId) this.#offload.storeSize.observe(event.bytes);
        break;
      case 'stays':
        for (const stay of event.stays) this.#stayed(stay);
        break;
      case 'dead':
        if (event.stats) this.#count(event.stats);
        this.#streaming.clear();
        break;
    }
  }

  /** A new engine has replaced one that ended: it has none of its requests, and counts from 0. */
  restarted(): void {
    this.#streaming.clear();
    this.#counts.clear();
  }

  /** Sets gauges and advances counters to the engine's current values. null: the engine has ended; gauges become 0. */
  setStats(stats: EngineStats | null): void {
    const m = this.#m;
    const waiting = stats?.waiting ?? 0;
    const deferred = stats?.waitingForRemote ?? 0;
    m.running.set(stats?.running ?? 0);
    m.waiting.set(waiting + deferred);
    m.waitingBy('capacity', waiting);
    m.waitingBy('deferred', deferred);
    m.usage.set(stats ? stats.usedBlocks / (stats.numBlocks - 1) : 0);
    m.held.set(stats?.heldRequests ?? 0);
    m.memory('gpu', stats?.memory.gpu ?? 0);
    m.memory('shared', stats?.memory.shared ?? 0);
    if (stats) this.#count(stats);
  }

  #count(stats: EngineStats): void {
    const m = this.#m;
    const { prefixCache, externalPrefixCache, transfers } = stats;
    this.#counts.follow('prefix queries', m.prefixQueries, prefixCache.queries);
    this.#counts.follow('prefix hits', m.prefixHits, prefixCache.hits);
    this.#counts.follow('external queries', m.externalQueries, externalPrefixCache.queries);
    this.#counts.follow('external hits', m.externalHits, externalPrefixCache.hits);
    this.#counts.follow('preemptions', m.preemptions, stats.preemptions);
    this.#counts.follow('failed transfers', m.failedTransfers, transfers?.numFailedTransfers ?? 0);
    this.#counts.follow(
      'failed notifications',
      m.failedNotifications,
      transfers?.numFailedNotifications ?? 0,
    );
    this.#counts.follow('expired', m.expired, transfers?.numKvExpired ?? 0);
    for (const reason of NO_PULL_REASONS)
      this.#counts.follow(
        `no pull: ${reason}`,
        { inc: (by) => m.noPulls(reason, by) },
        stats.noPulls[reason],
      );
    if (stats.store) this.#setStore(stats.store);
    if (!transfers) return;
    const { holdsDropped, pullsNotDone } = transfers;
    // Labelled by the intended reader: P reads D's holds.
    this.#counts.follow('dropped for P', { inc: (by) => m.holdsDropped('prefill', by) }, holdsDropped.decode);
    this.#counts.follow('dropped for D', { inc: (by) => m.holdsDropped('decode', by) }, holdsDropped.prefill);
    for (const outcome of PULL_FAILURES)
      this.#counts.follow(
        `pull ${outcome}`,
        { inc: (by) => m.pullsNotDone(outcome, by) },
        pullsNotDone[outcome],
      );
  }

  #stayed({ lifetimeMs, idleMs, reuseGapsMs }: BlockStay): void {
    this.#residency?.lifetime.observe(seconds(lifetimeMs));
    this.#residency?.idle.observe(seconds(idleMs));
    for (const ms of reuseGapsMs) this.#residency?.reuseGap.observe(seconds(ms));
  }

  #setStore(used: StoreCounters): void {
    const m = this.#offload;
    this.#counts.follow('load bytes', m.loadBytes, used.loadedBytes);
    this.#counts.follow('load time', m.loadTime, used.loadMs / 1000);
    this.#counts.follow('store bytes', m.storeBytes, used.savedBytes);
    this.#counts.follow('store time', m.storeTime, used.saveMs / 1000);
    this.#counts.follow('offered', m.offered, used.offeredBlocks);
    this.#counts.follow('failed loads', m.failedLoads, used.failedLoads);
    this.#counts.follow('unanswered', m.unanswered, used.unanswered);
    this.#counts.follow('two hops', m.twoHops, used.twoHopBytes);
  }

  text(): Promise<string> {
    return this.#kit.text();
  }

  plainText(): Promise<string> {
    return this.#kit.text(PLAIN_METRICS);
  }

  #outputs(outputs: readonly RequestOutput[], atMs: number): void {
    let tokens = 0;
    for (const output of outputs) {
      if (output.tokens.length > 0) tokens += this.#tokens(output, atMs);
      if (output.finish) this.#finished(output, output.finish.reason, atMs);
    }
    // As in vLLM, a prompt counts in the step that produced its first token.
    if (tokens > 0) this.#m.iterationTokens.observe(tokens);
  }

  /** Returns the tokens to add to the step's count. */
  #tokens({ requestId, tokens, prompt, times }: RequestOutput, atMs: number): number {
    this.#m.generationTokens.inc(tokens.length);
    const known = this.#streaming.get(requestId);
    if (known) {
      this.#m.itl.observe(seconds(atMs - known.lastMs));
      known.lastMs = atMs;
      known.tokens += tokens.length;
      return tokens.length;
    }
    this.#streaming.set(requestId, { firstMs: atMs, lastMs: atMs, tokens: tokens.length, prompt });
    this.#m.ttft.observe(seconds(atMs - times.arrivalMs));
    if (!prompt) return tokens.length;
    const { promptTokens, localHitTokens, pulledTokens, computedTokens } = prompt;
    const cached = localHitTokens + pulledTokens;
    this.#m.promptTokens.inc(promptTokens);
    this.#m.promptBySource('local_compute', computedTokens);
    this.#m.promptBySource('local_cache_hit', localHitTokens);
    this.#m.promptBySource('external_kv_transfer', pulledTokens);
    this.#m.promptCached.inc(cached);
    // All tokens but the last had KV; the last was recomputed for its logits.
    this.#m.promptRecomputed.inc(cached + 1 === promptTokens ? 1 : 0);
    return tokens.length + promptTokens;
  }

  #finished(
    { requestId, times }: RequestOutput,
    reason: (typeof FINISHED_REASONS)[number],
    atMs: number,
  ): void {
    const m = this.#m;
    const streamed = this.#streaming.get(requestId);
    this.#streaming.delete(requestId);
    m.success(reason, 1);
    // As in vLLM, an aborted request is in none of the histograms of ended requests.
    if (reason === 'abort') return;
    m.e2e.observe(seconds(atMs - times.arrivalMs));
    if (times.scheduledMs !== null) m.queueTime.observe(seconds(times.scheduledMs - times.queuedMs));
    if (!streamed || times.scheduledMs === null) return;
    const { firstMs, lastMs, tokens, prompt } = streamed;
    m.prefillTime.observe(seconds(firstMs - times.scheduledMs));
    m.decodeTime.observe(seconds(lastMs - firstMs));
    m.inferenceTime.observe(seconds(lastMs - times.scheduledMs));
    m.tpot.observe(tokens > 1 ? seconds((lastMs - firstMs) / (tokens - 1)) : 0);
    if (prompt) m.requestPromptTokens.observe(prompt.promptTokens);
    if (prompt) m.computedTokens.observe(prompt.computedTokens);
    m.requestGenerationTokens.observe(tokens);
    m.maxNumGenerationTokens.observe(tokens);
  }
}

/** Never negative: the clocks of several threads may differ slightly. */
const seconds = (ms: number): number => Math.max(0, ms) / 1000;
