/** Metrics: their names and buckets against vLLM's, their values against what happened. */
import { describe, expect, it } from 'vitest';
import { toWire } from '../../src/errors.ts';
import type { EngineStats } from '../../src/host/engine-report.ts';
import { EngineMetrics } from '../../src/server/metrics/engine-metrics.ts';
import { buckets125, pythonFloat } from '../../src/server/metrics/metric-kit.ts';
import { RouterMetrics } from '../../src/server/metrics/router-metrics.ts';
import { emptyResult } from '../../src/transport/transfer.ts';
import { TestClock } from '../clock.ts';
import { engineConfig, request, TestEngine, tokens } from '../engine/fakes.ts';
import { parseExposition, sampleOf } from './exposition.ts';
import { StubService } from './stub.ts';
import { CHAT, hello, post, stubApp } from './stub-app.ts';

const options = {
  modelName: 'na"no',
  engineIndex: '0',
  maxModelLen: 1024,
  cacheConfig: { block_size: '16', num_gpu_blocks: '100' },
  kvCacheMetrics: false,
  links: [],
};
const idle = { requested() {}, token() {}, finished() {} };
const make = () => new EngineMetrics(options);
const read = async (metrics: { text(): Promise<string> }) => parseExposition(await metrics.text());

const ITL = '0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0';
const TTFT =
  '0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0';
const LATENCY =
  '0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0';
const XFER = '0.005 0.01 0.025 0.05 0.075 0.1 0.2 0.3 0.5 0.75 1.0 5.0';

/** As in vLLM: https://docs.vllm.ai/en/latest/usage/metrics.html, and loggers.py for the buckets. */
const histograms: Record<string, string> = {
  time_to_first_token_seconds: TTFT,
  inter_token_latency_seconds: ITL,
  request_time_per_output_token_seconds: ITL,
  e2e_request_latency_seconds: LATENCY,
  request_queue_time_seconds: LATENCY,
  request_inference_time_seconds: LATENCY,
  request_prefill_time_seconds: LATENCY,
  request_decode_time_seconds: LATENCY,
  iteration_tokens_total: '1.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 2048.0 4096.0 8192.0 16384.0',
  request_prompt_tokens: '1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0',
  request_generation_tokens: '1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0',
  request_max_num_generation_tokens: '1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0',
  request_params_max_tokens: '1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0',
  request_params_n: '1.0 2.0 5.0 10.0 20.0',
  nixl_xfer_time_seconds: XFER,
  nixl_post_time_seconds: `0.001 ${XFER}`,
  nixl_bytes_transferred:
    '2048.0 8192.0 32768.0 131072.0 524288.0 2.097152e+06 8.388608e+06 3.3554432e+07 1.34217728e+08 5.36870912e+08 2.147483648e+09 8.589934592e+09',
  nixl_num_descriptors:
    '10.0 20.0 30.0 50.0 75.0 100.0 200.0 400.0 1000.0 2000.0 4000.0 10000.0 20000.0 50000.0',
};
const counters = [
  'prefix_cache_queries_total',
  'prefix_cache_hits_total',
  'external_prefix_cache_queries_total',
  'external_prefix_cache_hits_total',
  'num_preemptions_total',
  'prompt_tokens_total',
  'prompt_tokens_by_source_total',
  'prompt_tokens_cached_total',
  'prompt_tokens_recomputed_total',
  'generation_tokens_total',
  'request_success_total',
  'nixl_num_failed_transfers_total',
  'nixl_num_failed_notifications_total',
  'nixl_num_kv_expired_reqs_total',
];
const gauges = ['kv_cache_usage_perc', 'num_requests_running', 'num_requests_waiting', 'cache_config_info'];

describe('metric names, labels and buckets', () => {
  it("are vLLM's from the start, with model_name and engine on every sample", async () => {
    const families = await read(make());
    const typeOf = (name: string) => families.get(`vllm:${name}`)?.type;
    for (const name of counters) expect([name, typeOf(name)]).toEqual([name, 'counter']);
    for (const name of gauges) expect([name, typeOf(name)]).toEqual([name, 'gauge']);
    for (const [name, bounds] of Object.entries(histograms)) {
      const samples = families.get(`vllm:${name}`)!.samples.filter((s) => s.name.endsWith('_bucket'));
      expect([name, samples.map((s) => s.labels.le).join(' ')]).toEqual([name, `${bounds} +Inf`]);
    }
    for (const { samples } of families.values()) {
      expect(samples.length).toBeGreaterThan(0);
      for (const { labels } of samples) expect(labels).toMatchObject({ model_name: 'na\\"no', engine: '0' });
    }
    const valuesOf = (name: string, label: string) =>
      families.get(`vllm:${name}`)!.samples.map((s) => s.labels[label]);
    expect(valuesOf('request_success_total', 'finished_reason')).toEqual([
      'stop',
      'length',
      'abort',
      'error',
    ]);
    expect(valuesOf('prompt_tokens_by_source_total', 'source')).toEqual([
      'local_compute',
      'local_cache_hit',
      'external_kv_transfer',
    ]);
  });

  it('include KV block lifetimes, idle times and reuse gaps only with kvCacheMetrics', async () => {
    const stays = [{ lifetimeMs: 2000, idleMs: 500, reuseGapsMs: [30, 40] }];
    const plain = make();
    plain.onEvent({ kind: 'stays', stays });
    expect(await plain.text()).not.toContain('kv_block');
    const metrics = new EngineMetrics({ ...options, kvCacheMetrics: true });
    metrics.onEvent({ kind: 'stays', stays });
    const families = await read(metrics);
    for (const [name, count, sum] of [
      ['lifetime', 1, 2],
      ['idle_before_evict', 1, 0.5],
      ['reuse_gap', 2, 0.07],
    ] as const) {
      const family = families.get(`vllm:kv_block_${name}_seconds`)!;
      const buckets = family.samples.filter((sample) => sample.name.endsWith('_bucket'));
      expect([name, buckets.map(({ labels }) => labels.le).join(' ')]).toEqual([
        name,
        '0.001 0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1.0 2.0 5.0 10.0 20.0 30.0 60.0 120.0 300.0 600.0 1200.0 1800.0 +Inf',
      ]);
      expect(sampleOf(families, `vllm:kv_block_${name}_seconds_count`)).toBe(count);
      expect(sampleOf(families, `vllm:kv_block_${name}_seconds_sum`)).toBeCloseTo(sum);
    }
  });

  it("print bounds as Prometheus' Python client does", () => {
    expect([0.001, 1, 2560, 16384, 999999, 2 ** 21, 1e6, 1.5e7].map(pythonFloat)).toEqual([
      '0.001',
      '1.0',
      '2560.0',
      '16384.0',
      '999999.0',
      '2.097152e+06',
      '1e+06',
      '1.5e+07',
    ]);
    expect(buckets125(120)).toEqual([1, 2, 5, 10, 20, 50, 100]);
  });
});

/** Steps an engine without a GPU until it is idle; each step takes `stepMs` on the test's clock. */
async function serve(metrics: EngineMetrics, engine: TestEngine, clock: TestClock, stepMs: number) {
  while (engine.core.poll()) {
    clock.advance(stepMs);
    const outputs = await engine.step();
    if (outputs.length > 0) metrics.onEvent({ kind: 'outputs', outputs, atMs: clock.now() });
  }
}

const stats = (engine: TestEngine, more: Partial<EngineStats> = {}): EngineStats => ({
  engineId: 'engine',
  memory: { gpu: 1000, shared: 200 },
  firstUseCompilations: 0,
  holdUse: null,
  transfers: null,
  ...engine.core.inspect.stats(),
  ...more,
});

describe('metric values', () => {
  it('match the requests that the engine served', async () => {
    const clock = new TestClock();
    const engine = new TestEngine(engineConfig(), { clock });
    const metrics = make();
    engine.add({ ...request('a', tokens(40), { maxTokens: 4 }), arrivalMs: clock.now() - 50 });
    await serve(metrics, engine, clock, 100);
    engine.add(request('b', tokens(40), { maxTokens: 1 }));
    await serve(metrics, engine, clock, 100);
    engine.add(request('gone', tokens(40, 3)));
    engine.core.abortRequest('gone');
    await serve(metrics, engine, clock, 100);
    metrics.setStats(stats(engine));
    const families = await read(metrics);
    const value = (name: string, labels = {}) => sampleOf(families, `vllm:${name}`, labels);
    expect(value('prompt_tokens_total')).toBe(80);
    expect(value('generation_tokens_total')).toBe(5);
    expect(value('prompt_tokens_by_source_total', { source: 'local_compute' })).toBe(40 + 8);
    expect(value('prompt_tokens_by_source_total', { source: 'local_cache_hit' })).toBe(32);
    expect(value('prompt_tokens_cached_total')).toBe(32);
    expect(value('prefix_cache_queries_total')).toBe(80);
    expect(value('prefix_cache_hits_total')).toBe(32);
    expect(value('request_success_total', { finished_reason: 'length' })).toBe(2);
    expect(value('request_success_total', { finished_reason: 'abort' })).toBe(1);
    expect(value('time_to_first_token_seconds_count')).toBe(2);
    expect(value('time_to_first_token_seconds_sum')).toBeCloseTo(0.15 + 0.1);
    expect(value('inter_token_latency_seconds_count')).toBe(3);
    expect(value('inter_token_latency_seconds_sum')).toBeCloseTo(0.3);
    expect(value('inter_token_latency_seconds_bucket', { le: '0.075' })).toBe(0);
    expect(value('inter_token_latency_seconds_bucket', { le: '0.15' })).toBe(3);
    expect(value('request_queue_time_seconds_count')).toBe(2);
    expect(value('request_decode_time_seconds_sum')).toBeCloseTo(0.3);
    expect(value('e2e_request_latency_seconds_count')).toBe(2);
    expect(value('request_prompt_tokens_sum')).toBe(80);
    expect(value('request_prefill_kv_computed_tokens_sum')).toBe(40 + 8);
    expect(value('iteration_tokens_total_sum')).toBe(80 + 5);
    expect(value('iteration_tokens_total_count')).toBe(5);
    expect(value('num_requests_running')).toBe(0);
  });

  it("leave an aborted request out of the histograms of ended requests, as vLLM's do", async () => {
    const clock = new TestClock();
    const engine = new TestEngine(engineConfig(), { clock });
    const metrics = make();
    engine.add(request('long', tokens(40), { maxTokens: 30 }));
    for (let step = 0; step < 3; step++) {
      clock.advance(100);
      metrics.onEvent({ kind: 'outputs', outputs: await engine.step(), atMs: clock.now() });
    }
    engine.core.abortRequest('long');
    await serve(metrics, engine, clock, 100);
    const families = await read(metrics);
    const value = (name: string, labels = {}) => sampleOf(families, `vllm:${name}`, labels);
    expect(value('request_success_total', { finished_reason: 'abort' })).toBe(1);
    expect(value('time_to_first_token_seconds_count')).toBe(1);
    const ended = [...families.keys()].filter((name) =>
      /e2e|queue_time|prefill_time|decode_time|inference_time|per_output|(generation|request_prompt|computed)_tokens$/.test(
        name,
      ),
    );
    const counts = ended.map((name) => [name, sampleOf(families, `${name}_count`)]);
    expect(counts).toEqual(ended.map((name) => [name, 0]));
    expect(ended).toHaveLength(10);
  });

  it('show the current state in gauges, and 0 for a dead engine', async () => {
    const engine = new TestEngine(engineConfig({ numBlocks: 11, maxNumSeqs: 1 }));
    const metrics = make();
    engine.add(request('a', tokens(60), { maxTokens: 30 }));
    engine.add(request('b', tokens(60), { maxTokens: 30 }));
    await engine.step();
    metrics.setStats(stats(engine, { waitingForRemote: 3 }));
    let families = await read(metrics);
    const value = (name: string, labels = {}) => sampleOf(families, `vllm:${name}`, labels);
    expect(value('num_requests_running')).toBe(1);
    expect(value('num_requests_waiting')).toBe(4);
    expect(value('num_requests_waiting_by_reason', { reason: 'deferred' })).toBe(3);
    expect(value('kv_cache_usage_perc')).toBeCloseTo(4 / 10);
    metrics.setStats(null);
    families = await read(metrics);
    expect(value('num_requests_running')).toBe(0);
    expect(value('kv_cache_usage_perc')).toBe(0);
  });

  it('never fall in counters, though a rebuilt engine counts from 0 again', async () => {
    const metrics = make();
    const engine = new TestEngine(engineConfig());
    const seen = async (queries: number) => {
      metrics.setStats(stats(engine, { externalPrefixCache: { queries, hits: 0 } }));
      return sampleOf(await read(metrics), 'vllm:external_prefix_cache_queries_total');
    };
    expect([await seen(100), await seen(100), await seen(30), await seen(50)]).toEqual([100, 100, 130, 150]);
    metrics.restarted();
    expect(await seen(60)).toBe(210);
  });

  it('keep in counters what an engine had counted when it died, and add what its replacement counts', async () => {
    const metrics = make();
    const engine = new TestEngine(engineConfig());
    const asOf = (queries: number) => stats(engine, { prefixCache: { queries, hits: 0 } });
    const queries = async () => sampleOf(await read(metrics), 'vllm:prefix_cache_queries_total');
    metrics.setStats(asOf(100));
    metrics.onEvent({ kind: 'dead', error: toWire(new Error('lost')), stats: asOf(128) });
    metrics.setStats(null);
    expect(await queries()).toBe(128);
    metrics.restarted();
    metrics.setStats(asOf(30));
    expect(await queries()).toBe(158);
  });

  it('count a transfer once, and a failed one only as failed', async () => {
    const metrics = make();
    const result = {
      ...emptyResult('done', '', 30),
      bytes: 5_000_000,
      blocks: 10,
      descriptors: 12,
      postMs: 2,
    };
    const event = { kind: 'transfer', requestId: 'r', remoteEngineId: 'd', atMs: 0 } as const;
    metrics.onEvent({ ...event, result });
    metrics.onEvent({ ...event, result: emptyResult('failed', 'why', 7) });
    metrics.setStats(
      stats(new TestEngine(engineConfig()), {
        transfers: {
          ...{ transfers: 1, numFailedTransfers: 1, numFailedNotifications: 2, numKvExpired: 3 },
          holdsDropped: { prefill: 4, decode: 5 },
          pullsNotDone: { declined: 6, expired: 7, refused: 8, failed: 9, dead: 10 },
        },
      }),
    );
    const families = await read(metrics);
    const value = (name: string, labels = {}) => sampleOf(families, `vllm:nixl_${name}`, labels);
    expect(value('bytes_transferred_sum')).toBe(5_000_000);
    expect(value('bytes_transferred_count')).toBe(1);
    expect(value('xfer_time_seconds_bucket', { le: '0.025' })).toBe(0);
    expect(value('xfer_time_seconds_bucket', { le: '0.05' })).toBe(1);
    expect(value('post_time_seconds_sum')).toBeCloseTo(0.002);
    expect(value('num_descriptors_sum')).toBe(12);
    expect(value('num_failed_transfers_total')).toBe(1);
    expect(value('num_failed_notifications_total')).toBe(2);
    expect(value('num_kv_expired_reqs_total')).toBe(3);
    const ours = (name: string, labels = {}) => sampleOf(families, `kvferry:${name}`, labels);
    // D's holds are for P to read.
    expect(ours('holds_dropped_total', { reader: 'prefill' })).toBe(5);
    expect(ours('holds_dropped_total', { reader: 'decode' })).toBe(4);
    expect(ours('pulls_not_done_total', { outcome: 'refused' })).toBe(8);
    expect(ours('prompts_not_pulled_total', { reason: 'policy' })).toBe(0);
  });

  it('do not grow with requests: after 1,000 the text has as many lines as after 10', async () => {
    const metrics = make();
    const lengths: number[] = [];
    const engine = new TestEngine(engineConfig());
    engine.add(request('one', tokens(20), { maxTokens: 1 }));
    const [output] = await engine.step();
    for (let i = 0; i < 1000; i++) {
      metrics.onEvent({ kind: 'outputs', outputs: [{ ...output!, requestId: `request-${i}` }], atMs: 0 });
      if (i === 9 || i === 999) lengths.push((await metrics.text()).split('\n').length);
    }
    expect(lengths[0]).toBe(lengths[1]);
  });
});

it("the router's metrics are what its clients saw", async () => {
  const metrics = new RouterMetrics('nano');
  for (const since of [null, 20, 40]) metrics.token(since);
  const prompt = { promptTokens: 50, localHitTokens: 16, pulledTokens: 30, computedTokens: 4, noPull: null };
  const times = { firstTokenMs: 120, latencyMs: 180 };
  const completed = { requestId: 'r', ...times, outputTokens: 3, prompt, storedTokens: 0 };
  metrics.finished({ ...completed, reason: 'length' });
  for (const reason of ['abort', 'error'] as const) metrics.finished({ ...completed, prompt: null, reason });
  const families = await read(metrics);
  const value = (name: string, labels = {}) => sampleOf(families, `kvferry:router_${name}`, labels);
  expect(value('prompt_tokens_by_source_total', { source: 'external_kv_transfer' })).toBe(30);
  expect(value('generation_tokens_total')).toBe(3);
  expect(value('time_to_first_token_seconds_sum')).toBeCloseTo(3 * 0.12);
  // The others have no last token.
  expect(value('e2e_request_latency_seconds_count')).toBe(1);
  expect(value('e2e_request_latency_seconds_sum')).toBeCloseTo(0.18);
  expect(value('inter_token_latency_seconds_count')).toBe(2);
  expect(value('requests_total', { finished_reason: 'length' })).toBe(1);
});

it('modelled links are named on every port, and only where there are any', async () => {
  const links = ['10gbe', '1e6,2ms'];
  for (const metrics of [new EngineMetrics({ ...options, links }), new RouterMetrics('nano', links)]) {
    const families = await read(metrics);
    for (const link of links) expect(sampleOf(families, 'kvferry:modelled_link_info', { link })).toBe(1);
  }
  for (const metrics of [make(), new RouterMetrics('nano')])
    expect(await metrics.text()).not.toContain('modelled');
});

describe('metrics open to everybody', () => {
  it("are an engine's load gauges, as in the full text, and the router's count of ended requests", async () => {
    const metrics = make();
    const whole = await metrics.text();
    const plain = await metrics.plainText();
    expect([...parseExposition(plain).keys()]).toEqual([
      'vllm:num_requests_running',
      'vllm:num_requests_waiting',
      'vllm:num_requests_waiting_by_reason',
      'vllm:kv_cache_usage_perc',
      'vllm:cache_config_info',
    ]);
    for (const line of plain.split('\n')) expect(whole.split('\n')).toContain(line);
    expect(plain).toContain('vllm:num_requests_running{model_name="na\\"no",engine="0"} 0');
    const router = await new RouterMetrics('nano').plainText();
    expect([...parseExposition(router).keys()]).toEqual(['kvferry:router_requests_total']);
  });
});

describe('the HTTP responses of a port', () => {
  it('are counted by handler, method and status, and refusals by code', async () => {
    for (const metrics of [make(), new RouterMetrics('nano')]) {
      const stub = new StubService('engine');
      const { answered } = metrics;
      const observer =
        metrics instanceof EngineMetrics ? { ...idle, requested: metrics.requested.bind(metrics) } : metrics;
      const app = stubApp(stub, { answered, observer, apiKey: 'k' });
      const key = { Authorization: 'Bearer k' };
      await app.request(CHAT, post({ ...hello, n: 2, temperature: 1 }, key));
      await app.request(CHAT, post(hello));
      await app.request(CHAT, post({ ...hello, model: 'other' }, key));
      await app.request(CHAT, post('{', key));
      await app.request(CHAT, { method: 'BREW', headers: key });
      await app.request(`/${crypto.randomUUID()}`, { headers: key });
      for (const name of ['nano', 'alias']) await app.request(`/v1/models/${name}`, { headers: key });
      await app.request(CHAT, post(hello, { ...key, Origin: 'https://evil.example' }));
      for (const path of ['/health', '/version']) await app.request(path, { headers: key });
      const families = await read(metrics);
      const count = (labels: Record<string, string>) => sampleOf(families, 'http_requests_total', labels);
      expect(count({ handler: CHAT, method: 'POST', status: '2xx' })).toBe(1);
      expect(count({ handler: CHAT, method: 'POST', status: '4xx' })).toBe(4);
      expect(count({ handler: 'none', method: 'GET', status: '4xx' })).toBe(1);
      expect(count({ handler: CHAT, method: 'other', status: '4xx' })).toBe(1);
      expect(count({ handler: '/v1/models/{model}', method: 'GET', status: '2xx' })).toBe(2);
      const handlers = families.get('http_requests_total')!.samples.map(({ labels }) => labels.handler);
      expect(new Set(handlers)).toEqual(new Set([CHAT, '/v1/models/{model}', 'none']));
      const refused = ['400', '401', '403', '404', '405', '503'].map((code) =>
        sampleOf(families, 'kvferry:requests_refused_total', { code }),
      );
      expect(refused).toEqual([1, 1, 1, 2, 1, 0]);
      if (!(metrics instanceof EngineMetrics)) continue;
      expect(sampleOf(families, 'vllm:request_params_n_sum')).toBe(2);
      expect(sampleOf(families, 'vllm:request_params_max_tokens_sum')).toBe(3);
    }
  });
});

describe('store metrics', () => {
  const used = {
    ...{
      loads: 3,
      loadedTokens: 480,
      loadedBytes: 6_000_000,
      failedLoads: 1,
      offeredBlocks: 40,
      savedBlocks: 30,
    },
    ...{ savedBytes: 9_000_000, savingBlockMs: 10, loadMs: 250, saveMs: 500, unanswered: 2, twoHopBytes: 77 },
  };

  it("of an engine have vLLM's names, and store loads are not counted as NIXL transfers", async () => {
    const metrics = make();
    const transfer = (remoteEngineId: string, bytes: number) =>
      metrics.onEvent({
        ...{ kind: 'transfer', requestId: 'r', remoteEngineId, atMs: 0 },
        result: { ...emptyResult('done', '', 5), bytes },
      });
    transfer('store', 2_000_000);
    transfer('decode-0', 300);
    metrics.onEvent({
      ...{ kind: 'saved', requestId: 'r', remoteEngineId: 'store', pairs: [] },
      ...{ bytes: 3_000_000, startedMs: 0, atMs: 1 },
    });
    const engine = new TestEngine(engineConfig());
    metrics.setStats(stats(engine, { store: used }));
    metrics.setStats(stats(engine, { store: { ...used, loadedBytes: 7_000_000 } }));
    const families = await read(metrics);
    const value = (name: string) => sampleOf(families, name);
    expect(value('vllm:kv_offload_load_bytes_total')).toBe(7_000_000);
    expect(value('vllm:kv_offload_load_time_total')).toBe(0.25);
    expect(value('vllm:kv_offload_store_bytes_total')).toBe(9_000_000);
    expect(value('vllm:kv_offload_store_time_total')).toBe(0.5);
    expect(value('vllm:kv_offload_load_size_sum')).toBe(2_000_000);
    expect(value('vllm:kv_offload_store_size_sum')).toBe(3_000_000);
    expect(value('vllm:kv_offload_store_size_count')).toBe(1);
    expect(value('kvferry:two_hop_bytes_total')).toBe(77);
    expect(value('vllm:nixl_bytes_transferred_count')).toBe(1);
    expect(value('vllm:nixl_bytes_transferred_sum')).toBe(300);
  });

  it("of all tiers are on the router's port, and are 0 without a store", async () => {
    const metrics = new RouterMetrics('nano');
    metrics.setStore(null);
    expect(sampleOf(await read(metrics), 'vllm:kv_offload_cpu_cache_usage_perc')).toBe(0);
    const counters = {
      ...{ lookups: 10, hits: 7, stored: 5, evicted: 2, refused: 1 },
      ...{ offers: 4, taken: 5, known: 0, lost: 0, loads: 2, raised: 0, raisedFar: 0 },
    };
    const folder = {
      ...{ blocks: 6, bytes: 700 },
      counters: {
        ...{ written: 3, writtenBytes: 270, read: 2, readBytes: 130, readMs: 50, writeMs: 20 },
        ...{ broken: 1, expired: 0, leftOut: 4 },
      },
    };
    const server = {
      ...{ blocks: 9, resting: true },
      counters: {
        written: 30,
        writtenBytes: 3000,
        read: 20,
        readBytes: 2000,
        readMs: 5,
        writeMs: 2,
        broken: 10,
        leftOut: 40,
        outages: 2,
        foreign: 3,
      },
    };
    metrics.setStore({ slots: 8, blocks: 5, inUse: 2, blockBytes: 100, counters, folder, server });
    const families = await read(metrics);
    const tier = { tier: '1:fs' };
    const below = { tier: '2:redis' };
    for (const [name, value, labels] of [
      ['vllm:kv_offload_cpu_cache_usage_perc', 0.25],
      ['vllm:kv_offload_cpu_block_lookup_total', 10],
      ['vllm:kv_offload_cpu_block_hit_total', 7],
      ['vllm:kv_offload_cpu_block_miss_total', 3],
      ['vllm:kv_offload_block_eviction_total', 2],
      ['vllm:kv_offload_allocation_failure_total', 1],
      ['vllm:kv_offload_tiering_read_bytes_total', 130, tier],
      ['vllm:kv_offload_tiering_read_time_total', 0.05, tier],
      ['vllm:kv_offload_tiering_write_bytes_total', 270, tier],
      ['vllm:kv_offload_tiering_promotion_job_failures_total', 1, tier],
      ['vllm:kv_offload_tiering_cascade_job_failures_total', 4, tier],
      ['vllm:kv_offload_tiering_read_bytes_total', 2000, below],
      ['vllm:kv_offload_tiering_cascade_job_failures_total', 40, below],
      ['kvferry:store_blocks', 9, below],
      ['kvferry:store_server_outages_total', 2],
      ['kvferry:store_server_foreign_values_total', 3],
    ] as const)
      expect([name, sampleOf(families, name, labels)]).toEqual([name, value]);
  });
});
