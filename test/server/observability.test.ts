/** /metrics of a port: what modelled links it names, and what it says when a thread does not answer within a second. */
import { Hono } from 'hono';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cluster } from '../../src/fleet/types.ts';
import { observeEngine, observeRouter } from '../../src/server/observability.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';
import { parseExposition, sampleOf } from './exposition.ts';
import { engineService, routerService } from './ports.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const never = new Promise<never>(() => {});
const counts = { count: 1, numBlocks: 8, enablePrefixCaching: true };
const cluster = {
  settings: { prefill: counts, decode: counts },
  onNotice: () => () => {},
  onCacheEvent: () => () => {},
  onStoreEvent: () => () => {},
} as unknown as Cluster;

/** The samples of GET /metrics, which may take a second. */
async function metricsOf(observability: Pick<ReturnType<typeof observeEngine>, 'mountMetrics'>) {
  const app = new Hono();
  observability.mountMetrics(app, () => true);
  const asked = Promise.resolve(app.request('/metrics'));
  await vi.advanceTimersByTimeAsync(1000);
  const families = parseExposition(await (await asked).text());
  return (name: string) => sampleOf(families, name);
}

it('metrics of an engine that does not answer keep their last values, and are 0 once it has died', async () => {
  const engine = new TestEngine(engineConfig());
  engine.add(request('a', tokens(50), { maxTokens: 9 }));
  await engine.step();
  let core: typeof engine.core | null = engine.core;
  const service = engineService(() => core);
  const port = observeEngine(service, cluster);
  const running = async () => (await metricsOf(port))('vllm:num_requests_running');
  expect(await running()).toBe(1);
  const stats = vi.spyOn(service.engine().inspection, 'stats').mockReturnValue(never);
  expect(await running()).toBe(1);
  expect(await running()).toBe(1);
  expect(stats).toHaveBeenCalledTimes(1);
  core = null;
  expect(await running()).toBe(0);
});

it('metrics of a store that does not answer keep their last values', async () => {
  const counters = { lookups: 10, hits: 7, evicted: 0, refused: 0 };
  const stats = { slots: 8, blocks: 5, inUse: 2, blockBytes: 1, counters, folder: null, server: null };
  const storeStats = vi.fn(async () => stats);
  const service = routerService({ ...cluster, storeStats: storeStats as never });
  const port = observeRouter(service, () => []);
  const usage = async () => (await metricsOf(port))('vllm:kv_offload_cpu_cache_usage_perc');
  expect(await usage()).toBe(0.25);
  storeStats.mockReturnValue(never);
  expect(await usage()).toBe(0.25);
  expect(await usage()).toBe(0.25);
  expect(storeStats).toHaveBeenCalledTimes(2);
});

it('modelled links are named on the ports of engines and router', async () => {
  const link = { name: '1e6,2ms', bytesPerSecond: 1e6, latencyMs: 2 };
  const linked = { ...cluster, settings: { ...cluster.settings, link } } as unknown as Cluster;
  const core = new TestEngine(engineConfig()).core;
  const ports = [
    observeEngine(
      engineService(() => core),
      linked,
    ),
    observeRouter(routerService({ ...linked, storeStats: async () => null }), () => []),
  ];
  for (const port of ports) expect((await metricsOf(port))('kvferry:modelled_link_info')).toBe(1);
});
