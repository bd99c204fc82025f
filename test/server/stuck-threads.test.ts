/** What ports tell of threads that answer nobody: soon, and nothing that is not so. */
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

/** GET /metrics, a second after it was asked for. */
async function metricsOf(observability: Pick<ReturnType<typeof observeEngine>, 'mountMetrics'>) {
  const app = new Hono();
  observability.mountMetrics(app, () => true);
  const asked = Promise.resolve(app.request('/metrics'));
  await vi.advanceTimersByTimeAsync(1000);
  const families = parseExposition(await (await asked).text());
  return (name: string) => sampleOf(families, name);
}

it('an engine that does not answer has the figures that it had, and none once it has ended', async () => {
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

it('a store that does not answer has the figures that it had', async () => {
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
