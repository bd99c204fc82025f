/** Metrics, KV events and cache queries of real engines in their threads agree with what the engines do. */
import type { Hono } from 'hono';
import { expect, it } from 'vitest';
import type { EngineCluster } from '../../src/fleet/cluster.ts';
import { createApp } from '../../src/server/app.ts';
import { type Observability, observeEngine, observeRouter } from '../../src/server/observability.ts';
import type { EngineService, RouterService } from '../../src/server/service.ts';
import { parseExposition, sampleOf } from '../server/exposition.ts';
import { model, post, text } from '../server/ports.ts';
import { appOptions } from '../server/stub-app.ts';
import { converse, generate, withCluster } from './cluster-fixture.ts';

const common = {
  model,
  text,
  maxNumSeqs: 8,
  generate: () => {
    throw new Error('not here');
  },
  unhealthy: () => null,
};

function portsOf(cluster: EngineCluster) {
  const engine = (role: 'prefill' | 'decode') => {
    const service: EngineService = {
      ...common,
      kind: 'engine',
      name: `${role}-0`,
      engine: () => cluster.engine(role),
      resetPrefixCache: () => cluster.engine(role).serving.resetPrefixCache(),
      noteHost: () => {},
      refused: () => {},
    };
    return appOf(service, observeEngine(service, cluster));
  };
  const router: RouterService = { ...common, kind: 'router', name: 'router', cluster };
  const ofRouter = observeRouter(router, () => cluster.members.staying);
  return { p: engine('prefill'), d: engine('decode'), router: appOf(router, ofRouter) };
}

function appOf(service: EngineService | RouterService, observability: Observability) {
  const mount = (app: Hono) => {
    observability.mountMetrics(app, () => true);
    observability.mountDetails(app);
  };
  return { app: createApp(service, appOptions(service, { created: 0, mount })), close: observability.close };
}

type Port = ReturnType<typeof portsOf>['p'];

async function metricsOf(port: Port) {
  const response = await port.app.request('/metrics');
  expect(response.headers.get('Content-Type')).toMatch(/^text\/plain; version=0\.0\.4/);
  const families = parseExposition(await response.text());
  return (name: string, labels = {}) => sampleOf(families, `vllm:${name}`, labels);
}

const stays = (value: (name: string) => number | undefined) => ({
  sum: value('kv_block_lifetime_seconds_sum'),
  count: value('kv_block_lifetime_seconds_count'),
});

interface Answer {
  prompt_tokens: number;
  engines: {
    engine_id: string;
    cached_tokens: number;
    hit_tokens: number;
    held: { num_tokens: number; block_ids: number[][] }[];
  }[];
}

async function query(port: Port, tokenIds: readonly number[]): Promise<Answer> {
  const response = await post(port.app, '/kv/query', { token_ids: tokenIds });
  expect(response.status).toBe(200);
  return (await response.json()) as Answer;
}

/** The events so far, replayed by the event stream. */
async function eventsOf(port: Port): Promise<{ type: string; token_ids?: number[] }[]> {
  port.close();
  const body = await (await port.app.request('/kv/events?from=0')).text();
  return [...body.matchAll(/^data: (.*)$/gm)].flatMap(([, data]) => JSON.parse(data!).events ?? []);
}

it('cache queries predict a pull, metrics count it, and events list the stored blocks', async () => {
  const options = { prefill: { numBlocks: 128, enablePrefixCaching: true }, kvCacheMetricsSample: 1 };
  await withCluster(options, async (cluster) => {
    const { p, d, router } = portsOf(cluster);
    const [first] = await converse(cluster, 'c', 1, { newTokens: 50, outputTokens: 40 });
    const history = [...first!.result.promptTokenIds, ...first!.result.outputTokenIds];
    const promptTokenIds = [...history, 21, 22, 23];

    const before = await cluster.stats();
    const atP = (await query(p, promptTokenIds)).engines;
    const atD = (await query(d, promptTokenIds)).engines;
    const both = (await query(router, promptTokenIds)).engines;
    expect(both).toEqual([...atP, ...atD]);
    const count = ({ steps, forwardPasses }: (typeof before)[number]) => [steps, forwardPasses];
    expect((await cluster.stats()).map(count)).toEqual(before.map(count));
    // The last sampled token has no KV.
    expect(atD[0]!.held).toMatchObject([{ num_tokens: history.length - 1 }]);
    expect(atD[0]!.held[0]!.block_ids[0]).toHaveLength(Math.ceil((history.length - 1) / 16));
    expect(atP[0]).toMatchObject({ cached_tokens: 48, hit_tokens: 48 });

    const { result } = await generate(cluster, {
      conversationId: 'c',
      promptTokenIds,
      sampling: { maxTokens: 5, ignoreEos: true },
    });
    expect(result.prompt.localHitTokens).toBe(atP[0]!.hit_tokens);
    expect(result.prompt.pulledTokens).toBe(history.length - 1 - 48);

    const value = await metricsOf(p);
    expect(value('external_prefix_cache_hits_total')).toBe(result.prompt.pulledTokens);
    expect(value('prompt_tokens_by_source_total', { source: 'external_kv_transfer' })).toBe(
      result.prompt.pulledTokens,
    );
    expect(value('prefix_cache_hits_total')).toBe(48);
    expect(value('nixl_bytes_transferred_sum')).toBe(result.transfer.dToP!.bytes);
    expect(value('nixl_num_descriptors_sum')).toBe(result.transfer.dToP!.descriptors);
    expect(value('request_success_total', { finished_reason: 'length' })).toBe(2);
    expect(value('time_to_first_token_seconds_count')).toBe(2);
    const atDecode = await metricsOf(d);
    expect(atDecode('nixl_xfer_time_seconds_count')).toBe(2);
    expect(atDecode('generation_tokens_total')).toBe(45);
    expect(atDecode('inter_token_latency_seconds_count')).toBe(39 + 4);

    const stored = (await eventsOf(d)).filter(({ type }) => type === 'BlockStored');
    const tokens = stored.flatMap(({ token_ids }) => token_ids!);
    expect(tokens.slice(0, 80)).toEqual(history.slice(0, 80));
    await cluster.endConversation('c');

    expect(value('kv_block_lifetime_seconds_count')).toBe(0);
    await cluster.engine('prefill').lab.forgetPrefix(promptTokenIds, null, 0);
    await converse(cluster, 'other', 1);
    const blocks = Math.floor(promptTokenIds.length / 16);
    const told = stays(await metricsOf(p));
    expect(told.count).toBeGreaterThanOrEqual(blocks);
    expect(told.sum).toBeGreaterThan(0);
    expect(stays(atDecode)).toEqual({ sum: 0, count: 0 });
  });
});

it('an engine emits AllBlocksCleared after a settings change and after it is revived', async () => {
  await withCluster({}, async (cluster) => {
    const { d } = portsOf(cluster);
    await converse(cluster, 'c', 1, { newTokens: 40 });
    await cluster.endConversation('c');
    await cluster.configure({ mode: 'unidirectional' });
    await converse(cluster, 'd', 1, { newTokens: 40 });
    const { prefixCache } = await cluster.engine('decode').inspection.stats();
    expect(prefixCache.queries).toBeGreaterThan(0);
    await cluster.engine('decode').lab.loseDevice();
    await expect.poll(() => cluster.engine('decode').dead).toBe(true);
    const dead = await metricsOf(d);
    expect(dead('num_requests_running')).toBe(0);
    expect(dead('generation_tokens_total')).toBe(24);
    // Counted since the last scrape, of which there was none.
    expect(dead('prefix_cache_queries_total')).toBe(prefixCache.queries);
    expect((await post(d.app, '/kv/query', { token_ids: [1, 2] })).status).toBe(503);
    await cluster.revive();
    await converse(cluster, 'e', 1, { newTokens: 40 });
    expect((await metricsOf(d))('generation_tokens_total')).toBe(36);
    const types = (await eventsOf(d)).map(({ type }) => type);
    const runs = types.filter((type, i) => type !== types[i - 1]);
    const cycle = ['BlockStored', 'AllBlocksCleared'];
    expect(runs).toEqual([...cycle, ...cycle, 'BlockStored']);
  });
});
