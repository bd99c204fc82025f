/** The router's metrics, as its clients saw the requests. Each engine's metrics are on its own port. */

import type { StoreStats } from '../../store/stats.ts';
import type { RequestObserver, RequestRecord } from '../observer.ts';
import {
  FINISHED_REASONS,
  ITL_BUCKETS,
  LATENCY_BUCKETS,
  PROMPT_SOURCES,
  TTFT_BUCKETS,
} from './engine-metric-names.ts';
import { FleetMetrics } from './fleet-metrics.ts';
import { type Answered, httpMetrics } from './http-metrics.ts';
import { linkMetrics } from './link-metrics.ts';
import { MetricKit } from './metric-kit.ts';
import { StoreMetrics } from './store-metrics.ts';

export class RouterMetrics implements RequestObserver {
  readonly #kit: MetricKit;
  readonly #m: ReturnType<typeof define>;
  readonly answered: (answered: Answered) => void;
  /** Routing decisions, scaling, and engines joining and leaving. */
  readonly fleet: FleetMetrics;
  readonly #store: StoreMetrics;

  /** `links`: names of the modelled links. */
  constructor(modelName: string, links: readonly string[] = []) {
    this.#kit = new MetricKit({ model_name: modelName });
    this.#m = define(this.#kit);
    this.answered = httpMetrics(this.#kit);
    linkMetrics(this.#kit, links);
    this.fleet = new FleetMetrics(this.#kit);
    this.#store = new StoreMetrics(this.#kit);
  }

  get contentType(): string {
    return this.#kit.contentType;
  }

  /** The store's current state; null: there is no store. */
  setStore(stats: StoreStats | null): void {
    this.#store.set(stats);
  }

  requested(): void {}

  token(sincePreviousMs: number | null): void {
    this.#m.generationTokens.inc(1);
    if (sincePreviousMs !== null) this.#m.itl.observe(sincePreviousMs / 1000);
  }

  finished({ firstTokenMs, latencyMs, prompt, reason }: RequestRecord): void {
    this.#m.requests(reason, 1);
    if (firstTokenMs !== null) this.#m.ttft.observe(firstTokenMs / 1000);
    // The others have no last token.
    if (!prompt) return;
    this.#m.e2e.observe(latencyMs / 1000);
    this.#m.promptBySource('local_compute', prompt.computedTokens);
    this.#m.promptBySource('local_cache_hit', prompt.localHitTokens);
    this.#m.promptBySource('external_kv_transfer', prompt.pulledTokens);
  }

  text(): Promise<string> {
    return this.#kit.text();
  }

  plainText(): Promise<string> {
    return this.#kit.text(['kvferry:router_requests_total']);
  }
}

function define(kit: MetricKit) {
  return {
    requests: kit.counters(
      'kvferry:router_requests_total',
      'Ended requests, by finish reason.',
      'finished_reason',
      FINISHED_REASONS,
    ),
    promptBySource: kit.counters(
      'kvferry:router_prompt_tokens_by_source_total',
      'Prompt tokens of completed answers, by the source of their KV at the prefill engine. external_kv_transfer: pulled from the decode engine or loaded from a store.',
      'source',
      PROMPT_SOURCES,
    ),
    generationTokens: kit.counter('kvferry:router_generation_tokens_total', 'Tokens generated for clients.'),
    ttft: kit.histogram(
      'kvferry:router_time_to_first_token_seconds',
      "Time from the router's acceptance of a request to its first token.",
      TTFT_BUCKETS,
    ),
    itl: kit.histogram('kvferry:router_inter_token_latency_seconds', 'Time between two tokens.', ITL_BUCKETS),
    e2e: kit.histogram(
      'kvferry:router_e2e_request_latency_seconds',
      "Time from the router's acceptance of a request to its last token, for completed answers.",
      LATENCY_BUCKETS,
    ),
  };
}
