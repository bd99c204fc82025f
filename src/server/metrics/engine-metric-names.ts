/** Names, labels and buckets of one engine's metrics: vLLM's, plus kvferry's own. engine-metrics.ts sets their values. */
import { NO_PULL_REASONS } from '../../engine/types.ts';
import { buckets125, type Labels, type MetricKit } from './metric-kit.ts';

// biome-ignore format: a table
export const TTFT_BUCKETS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
];
// biome-ignore format: a table
export const ITL_BUCKETS = [
  0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
];
// biome-ignore format: a table
export const LATENCY_BUCKETS = [
  0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
];
const ITERATION_BUCKETS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const XFER_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 5];
const BYTES_BUCKETS = Array.from({ length: 12 }, (_, i) => 2 ** (11 + 2 * i));
// biome-ignore format: a table
const RESIDENCY_BUCKETS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800,
];
const DESCRIPTOR_BUCKETS = [10, 20, 30, 50, 75, 100, 200, 400, 1000, 2000, 4000, 10_000, 20_000, 50_000];

export const FINISHED_REASONS = ['stop', 'length', 'abort', 'error'] as const;
export const PROMPT_SOURCES = ['local_compute', 'local_cache_hit', 'external_kv_transfer'] as const;

/** Readable without an operator's key: the load figures that load balancers use. */
export const PLAIN_METRICS: readonly string[] = [
  'vllm:num_requests_running',
  'vllm:num_requests_waiting',
  'vllm:num_requests_waiting_by_reason',
  'vllm:kv_cache_usage_perc',
  'vllm:cache_config_info',
];

const HOLD_READERS = ['prefill', 'decode'] as const;
export const PULL_FAILURES = ['declined', 'expired', 'refused', 'failed', 'dead'] as const;

export interface EngineMetricsOptions {
  /** The model's served name. */
  modelName: string;
  /** Value of vLLM's `engine` label: the engine's number in its role. */
  engineIndex: string;
  /** Tokens; bounds the largest bucket of the length histograms. */
  maxModelLen: number;
  /** Labels of vllm:cache_config_info. */
  cacheConfig: Labels;
  /** Whether block residency is recorded. */
  kvCacheMetrics: boolean;
  /** Names of the modelled links. */
  links: readonly string[];
}

export function defineEngineMetrics(kit: MetricKit, { maxModelLen, cacheConfig }: EngineMetricsOptions) {
  kit.info('vllm:cache_config_info', 'Information of the LLMEngine CacheConfig', cacheConfig);
  const lengths = buckets125(maxModelLen);
  const tokens = (what: string) => `Number of ${what}.`;
  const phase = (name: string, what: string) => kit.histogram(`vllm:${name}_seconds`, what, LATENCY_BUCKETS);
  return {
    running: kit.gauge('vllm:num_requests_running', tokens('requests in model execution batches')),
    waiting: kit.gauge('vllm:num_requests_waiting', tokens('requests waiting to be processed')),
    waitingBy: kit.gauges(
      'vllm:num_requests_waiting_by_reason',
      'Requests that wait for free blocks or a batch slot (capacity), or for remote KV (deferred).',
      'reason',
      ['capacity', 'deferred'],
    ),
    usage: kit.gauge('vllm:kv_cache_usage_perc', 'KV-cache usage. 1 means 100 percent usage.'),
    held: kit.gauge(
      'kvferry:held_requests',
      'Ended requests whose blocks are kept for a reader, or until a load into them has ended.',
    ),
    memory: kit.gauges(
      'kvferry:memory_bytes',
      'Bytes of the device buffers (gpu), and of the memory shared with readers (shared).',
      'kind',
      ['gpu', 'shared'],
    ),
    prefixQueries: kit.counter(
      'vllm:prefix_cache_queries_total',
      'Prefix cache queries, in terms of number of queried tokens.',
    ),
    prefixHits: kit.counter(
      'vllm:prefix_cache_hits_total',
      'Prefix cache hits, in terms of number of cached tokens.',
    ),
    externalQueries: kit.counter(
      'vllm:external_prefix_cache_queries_total',
      'External prefix cache queries from KV connector, in terms of number of queried tokens.',
    ),
    externalHits: kit.counter(
      'vllm:external_prefix_cache_hits_total',
      'External prefix cache hits from KV connector, in terms of number of cached tokens.',
    ),
    preemptions: kit.counter(
      'vllm:num_preemptions_total',
      'Cumulative number of preemptions from the engine.',
    ),
    promptTokens: kit.counter('vllm:prompt_tokens_total', tokens('prefill tokens processed')),
    promptBySource: kit.counters(
      'vllm:prompt_tokens_by_source_total',
      'Number of prompt tokens by source.',
      'source',
      PROMPT_SOURCES,
    ),
    promptCached: kit.counter(
      'vllm:prompt_tokens_cached_total',
      'Number of cached prompt tokens (local + external).',
    ),
    promptRecomputed: kit.counter(
      'vllm:prompt_tokens_recomputed_total',
      'Number of cached tokens recomputed for the forward pass.',
    ),
    generationTokens: kit.counter('vllm:generation_tokens_total', tokens('generation tokens processed')),
    success: kit.counters(
      'vllm:request_success_total',
      'Count of successfully processed requests.',
      'finished_reason',
      FINISHED_REASONS,
    ),
    iterationTokens: kit.histogram(
      'vllm:iteration_tokens_total',
      'Histogram of number of tokens per engine_step.',
      ITERATION_BUCKETS,
    ),
    requestPromptTokens: kit.histogram(
      'vllm:request_prompt_tokens',
      tokens('prefill tokens of a request'),
      lengths,
    ),
    requestGenerationTokens: kit.histogram(
      'vllm:request_generation_tokens',
      tokens('generation tokens of a request'),
      lengths,
    ),
    maxNumGenerationTokens: kit.histogram(
      'vllm:request_max_num_generation_tokens',
      'Histogram of maximum number of requested generation tokens.',
      lengths,
    ),
    paramsN: kit.histogram(
      'vllm:request_params_n',
      'Histogram of the n request parameter.',
      [1, 2, 5, 10, 20],
    ),
    paramsMaxTokens: kit.histogram(
      'vllm:request_params_max_tokens',
      'Histogram of the max_tokens request parameter.',
      lengths,
    ),
    computedTokens: kit.histogram(
      'vllm:request_prefill_kv_computed_tokens',
      'Histogram of new KV tokens computed during prefill (excluding cached tokens).',
      lengths,
    ),
    ttft: kit.histogram(
      'vllm:time_to_first_token_seconds',
      'Histogram of time to first token in seconds.',
      TTFT_BUCKETS,
    ),
    itl: kit.histogram(
      'vllm:inter_token_latency_seconds',
      'Histogram of inter-token latency in seconds.',
      ITL_BUCKETS,
    ),
    tpot: kit.histogram(
      'vllm:request_time_per_output_token_seconds',
      'Histogram of time_per_output_token_seconds per request.',
      ITL_BUCKETS,
    ),
    e2e: phase('e2e_request_latency', 'Histogram of e2e request latency in seconds.'),
    queueTime: phase('request_queue_time', 'Histogram of time spent in WAITING phase for request.'),
    inferenceTime: phase('request_inference_time', 'Histogram of time spent in RUNNING phase for request.'),
    prefillTime: phase('request_prefill_time', 'Histogram of time spent in PREFILL phase for request.'),
    decodeTime: phase('request_decode_time', 'Histogram of time spent in DECODE phase for request.'),
    xferTime: kit.histogram(
      'vllm:nixl_xfer_time_seconds',
      'Histogram of transfer duration for NIXL KV Cache transfers.',
      XFER_BUCKETS,
    ),
    postTime: kit.histogram(
      'vllm:nixl_post_time_seconds',
      'Histogram of transfer post time for NIXL KV Cache transfers.',
      [0.001, ...XFER_BUCKETS],
    ),
    bytes: kit.histogram(
      'vllm:nixl_bytes_transferred',
      'Histogram of bytes transferred per NIXL KV Cache transfers.',
      BYTES_BUCKETS,
    ),
    descriptors: kit.histogram(
      'vllm:nixl_num_descriptors',
      'Histogram of number of descriptors per NIXL KV Cache transfers.',
      DESCRIPTOR_BUCKETS,
    ),
    failedTransfers: kit.counter(
      'vllm:nixl_num_failed_transfers_total',
      tokens('failed NIXL KV Cache transfers'),
    ),
    failedNotifications: kit.counter(
      'vllm:nixl_num_failed_notifications_total',
      tokens('failed NIXL KV Cache notifications'),
    ),
    expired: kit.counter('vllm:nixl_num_kv_expired_reqs_total', tokens('requests that had their KV expire')),
    holdsDropped: kit.counters(
      'kvferry:holds_dropped_total',
      'Holds dropped unread to free blocks, by intended reader (prefill: the next turn on P).',
      'reader',
      HOLD_READERS,
    ),
    noPulls: kit.counters(
      'kvferry:prompts_not_pulled_total',
      'Prompts for which nothing was pulled although KV was offered, by reason.',
      'reason',
      NO_PULL_REASONS,
    ),
    pullsNotDone: kit.counters(
      'kvferry:pulls_not_done_total',
      'Pulls that did not transfer all blocks, by outcome.',
      'outcome',
      PULL_FAILURES,
    ),
  };
}

/** vLLM's --kv-cache-metrics, for sampled blocks. */
export function defineResidencyMetrics(kit: MetricKit) {
  const sampled = (name: string, what: string) =>
    kit.histogram(
      `vllm:kv_block_${name}_seconds`,
      `Histogram of ${what}. Sampled metrics (controlled by --kv-cache-metrics-sample).`,
      RESIDENCY_BUCKETS,
    );
  return {
    lifetime: sampled('lifetime', 'KV cache block lifetime from allocation to eviction'),
    idle: sampled('idle_before_evict', 'idle time before KV cache block eviction'),
    reuseGap: sampled(
      'reuse_gap',
      'time gaps between consecutive KV cache block accesses. Only the most recent accesses are recorded (ring buffer)',
    ),
  };
}
