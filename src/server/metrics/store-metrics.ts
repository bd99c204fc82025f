/**
 * Metrics of a store: an engine's saves and loads (on the engine's port), and the store's tiers (on the router's port, because
 * there is one store). Names, units and buckets are vLLM's where it has them: kv_offload_* of the offloading connector and
 * kv_offload_tiering_* of its lower tiers (vllm/v1/kv_offload). vLLM's deprecated aliases are omitted.
 */
import type { LowerTierCounters } from '../../store/lower-tiers.ts';
import type { StoreStats } from '../../store/stats.ts';
import { FollowedCounts, type MetricKit } from './metric-kit.ts';

const SIZE_BUCKETS = [1e6, 5e6, 10e6, 20e6, 40e6, 60e6, 80e6, 100e6, 150e6, 200e6];

/** vLLM's tier names: level below memory, and kind. */
const FOLDER = '1:fs';
const SERVER = '2:redis';
type Tier = typeof FOLDER | typeof SERVER;

export function defineOffloadMetrics(kit: MetricKit) {
  return {
    loadBytes: kit.counter('vllm:kv_offload_load_bytes_total', 'Bytes loaded from the store.'),
    loadTime: kit.counter('vllm:kv_offload_load_time_total', 'Time of all loads from the store, in seconds.'),
    loadSize: kit.histogram('vllm:kv_offload_load_size', 'Size of a load, in bytes.', SIZE_BUCKETS),
    storeBytes: kit.counter('vllm:kv_offload_store_bytes_total', 'Bytes saved to the store.'),
    storeTime: kit.counter('vllm:kv_offload_store_time_total', 'Time of all saves to the store, in seconds.'),
    storeSize: kit.histogram('vllm:kv_offload_store_size', 'Size of a save, in bytes.', SIZE_BUCKETS),
    offered: kit.counter('kvferry:kv_offload_offered_blocks_total', 'Blocks offered to the store.'),
    failedLoads: kit.counter(
      'kvferry:kv_offload_failed_loads_total',
      'Loads that failed; their tokens were computed.',
    ),
    unanswered: kit.counter(
      'kvferry:kv_offload_unanswered_lookups_total',
      'Lookups that the store did not answer in time.',
    ),
    twoHops: kit.counter(
      'kvferry:two_hop_bytes_total',
      'Bytes that reached this engine in two hops in one turn, although one would have been enough.',
    ),
  };
}

export class StoreMetrics {
  readonly #m: ReturnType<typeof defineStoreMetrics>;
  /** Follows the store's own counters. */
  readonly #counts = new FollowedCounts();

  constructor(kit: MetricKit) {
    this.#m = defineStoreMetrics(kit);
  }

  /** null: there is no store, or it has ended. */
  set(stats: StoreStats | null): void {
    const m = this.#m;
    m.usage.set(stats ? stats.inUse / stats.slots : 0);
    m.blocks('cpu', stats?.blocks ?? 0);
    m.blocks(FOLDER, stats?.folder?.blocks ?? 0);
    m.blocks(SERVER, stats?.server?.blocks ?? 0);
    if (!stats) return;
    const { counters, folder, server } = stats;
    this.#counts.follow('lookups', m.lookups, counters.lookups);
    this.#counts.follow('hits', m.hits, counters.hits);
    this.#counts.follow('misses', m.misses, counters.lookups - counters.hits);
    this.#counts.follow('evicted', m.evictions, counters.evicted);
    this.#counts.follow('refused', m.refused, counters.refused);
    if (folder) this.#followTier(FOLDER, folder.counters);
    if (!server) return;
    this.#followTier(SERVER, server.counters);
    this.#counts.follow('outages', m.outages, server.counters.outages);
    this.#counts.follow('foreign', m.foreign, server.counters.foreign);
  }

  #followTier(
    tier: Tier,
    { readBytes, writtenBytes, readMs, writeMs, broken, leftOut }: LowerTierCounters,
  ): void {
    const m = this.#m;
    const follow = (count: (tier: Tier, by: number) => void, name: string, value: number) =>
      this.#counts.follow(`${tier} ${name}`, { inc: (by) => count(tier, by) }, value);
    follow(m.readBytes, 'read', readBytes);
    follow(m.readTime, 'read time', readMs / 1000);
    follow(m.writeBytes, 'written', writtenBytes);
    follow(m.writeTime, 'write time', writeMs / 1000);
    follow(m.promotionFailures, 'broken', broken);
    follow(m.cascadeFailures, 'left out', leftOut);
  }
}

function defineStoreMetrics(kit: MetricKit) {
  const tiered = (name: string, what: string) =>
    kit.counters(`vllm:kv_offload_tiering_${name}_total`, what, 'tier', [FOLDER, SERVER]);
  return {
    usage: kit.gauge(
      'vllm:kv_offload_cpu_cache_usage_perc',
      "Share of the store's memory that is being read or written now. 1 means all of it.",
    ),
    blocks: kit.gauges('kvferry:store_blocks', 'Blocks in the store, by tier.', 'tier', [
      'cpu',
      FOLDER,
      SERVER,
    ]),
    lookups: kit.counter('vllm:kv_offload_cpu_block_lookup_total', 'Blocks looked up in the store.'),
    hits: kit.counter('vllm:kv_offload_cpu_block_hit_total', 'Blocks looked up and found.'),
    misses: kit.counter('vllm:kv_offload_cpu_block_miss_total', 'Blocks looked up and not found.'),
    evictions: kit.counter(
      'vllm:kv_offload_block_eviction_total',
      "Blocks evicted from the store's memory to make room for others.",
    ),
    refused: kit.counter(
      'vllm:kv_offload_allocation_failure_total',
      'Blocks not stored, because all memory was being read or written.',
    ),
    outages: kit.counter(
      'kvferry:store_server_outages_total',
      "Times that the store's server did not answer and was left alone for a while.",
    ),
    foreign: kit.counter(
      'kvferry:store_server_foreign_values_total',
      "Values on the store's server under a block's key whose length or type is not a block's: not read, and removed.",
    ),
    readBytes: tiered('read_bytes', 'Bytes read from a tier below memory.'),
    readTime: tiered('read_time', 'Time of these reads, in seconds.'),
    writeBytes: tiered('write_bytes', 'Bytes written to a tier below memory.'),
    writeTime: tiered('write_time', 'Time of these writes, in seconds.'),
    promotionFailures: tiered(
      'promotion_job_failures',
      'Blocks in a tier below memory that were damaged or not the block of their name, and were removed, and files that could not be read.',
    ),
    cascadeFailures: tiered('cascade_job_failures', 'Blocks that were not written to a tier below memory.'),
  };
}
