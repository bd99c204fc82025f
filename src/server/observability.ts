/** A port's metrics, KV events and cache queries. */
import type { Context, Hono } from 'hono';
import { callWithTimeout, statsWithTimeout } from '../fleet/call-with-timeout.ts';
import { linksOfPairs, poolOf, seatsOf } from '../fleet/options.ts';
import type { Cluster } from '../fleet/types.ts';
import { systemClock } from '../platform/clock.ts';
import type { AutoscaleDecision } from '../router/autoscale/loop.ts';
import { numberOf } from '../router/scaling/plan.ts';
import { KvEventLog } from './kv/kv-events.ts';
import { mountKvEvents } from './kv/kv-events-route.ts';
import { mountKvQuery } from './kv/kv-query.ts';
import { EngineMetrics } from './metrics/engine-metrics.ts';
import type { StayingEngine } from './metrics/fleet-metrics.ts';
import type { Answered } from './metrics/http-metrics.ts';
import type { Exposition, Labels } from './metrics/metric-kit.ts';
import { RouterMetrics } from './metrics/router-metrics.ts';
import type { RequestObserver } from './observer.ts';
import type { EngineService, RouterService } from './service.ts';

export interface Observability {
  /** GET /metrics: everything for an operator; for others only what load balancers need. */
  mountMetrics(app: Hono, isOperator: (c: Context) => boolean): void;
  /** Routes for operators only: KV events (engine ports) and cache queries. */
  mountDetails(app: Hono): void;
  observer: RequestObserver;
  /** Called for each response of the port. */
  answered(answered: Answered): void;
  /** Ends every open event stream. */
  close(): void;
}

/** Follows the engine from now on, and each engine that replaces it. */
export function observeEngine(
  service: EngineService,
  cluster: Pick<Cluster, 'onNotice' | 'onCacheEvent' | 'onStoreEvent' | 'settings'>,
): Observability {
  let { engineId } = service.engine();
  const metrics = new EngineMetrics({
    modelName: service.model.names[0]!,
    engineIndex: String(numberOf(service.name)),
    maxModelLen: service.model.maxModelLen,
    cacheConfig: cacheConfig(cluster.settings, service.name),
    kvCacheMetrics: Boolean(cluster.settings.kvCacheMetricsSample),
    links: linkNames(cluster.settings),
  });
  const log = new KvEventLog();
  const stops = [
    cluster.onNotice((notice) => {
      if (notice.kind === 'engine' && notice.engineId === engineId) metrics.onEvent(notice.event);
      else if (notice.kind === 'alive' && notice.replaces === engineId) {
        engineId = notice.engineId;
        metrics.restarted();
      }
    }),
    cluster.onCacheEvent((batch) => {
      if (batch.engineId === engineId) log.append(batch.events, batch.atMs);
    }),
    // As in vLLM's tiers, an engine reports all blocks that it can load, whichever engine saved them.
    cluster.onStoreEvent(({ events, atMs }) => log.append(events, atMs)),
  ];
  return {
    // Tokens and ends are counted from the engine's own events.
    observer: { requested: (request) => metrics.requested(request), token() {}, finished() {} },
    answered: (answered) => metrics.answered(answered),
    mountMetrics(app, isOperator) {
      app.get('/metrics', async (c) => {
        const engine = service.engine();
        const stats = await statsWithTimeout(engine, systemClock);
        // Its last figures came with its end: an answer that was under way is older. If it is alive but does not answer,
        // its figures stay as they were.
        if (engine.ended) metrics.setStats(null);
        else if (stats) metrics.setStats(stats);
        return exposition(c, metrics, isOperator(c));
      });
    },
    mountDetails(app) {
      mountKvEvents(app, log);
      mountKvQuery(app, service);
    },
    close() {
      for (const stop of stops) stop();
      log.close();
    },
  };
}

/** `staying`: the fleet's engines that are not leaving. */
export function observeRouter(
  service: RouterService,
  staying: () => readonly StayingEngine[],
): Observability & { decided(decision: AutoscaleDecision): void } {
  const { cluster } = service;
  const metrics = new RouterMetrics(service.model.names[0]!, linkNames(cluster.settings));
  const stop = cluster.onNotice((notice) => metrics.fleet.hear(notice));
  return {
    observer: metrics,
    answered: (answered) => metrics.answered(answered),
    decided: (decision) => metrics.fleet.decided(decision),
    mountMetrics(app, isOperator) {
      app.get('/metrics', async (c) => {
        const operator = isOperator(c);
        metrics.fleet.setEngines(staying());
        // Only operators see the store's metrics, so other requests do not query the store.
        if (operator) {
          const stats = await callWithTimeout(cluster, () => cluster.storeStats(), systemClock);
          if (stats !== undefined) metrics.setStore(stats);
        }
        return exposition(c, metrics, operator);
      });
    },
    mountDetails(app) {
      mountKvQuery(app, service);
    },
    close: stop,
  };
}

async function exposition(c: Context, metrics: Exposition, operator: boolean): Promise<Response> {
  const text = await (operator ? metrics.text() : metrics.plainText());
  return c.body(text, 200, { 'Content-Type': metrics.contentType });
}

/** The modelled links between P and D, and of a store in another place. */
function linkNames(settings: Cluster['settings']): string[] {
  const { link, store } = settings;
  const links = [...linksOfPairs(settings), ...(store?.remote ? [link] : [])];
  return [...new Set(links.flatMap((each) => each?.name ?? []))];
}

/** vLLM's CacheConfig fields, as vLLM spells their names and values. */
function cacheConfig(settings: Cluster['settings'], name: string): Labels {
  const seat = seatsOf(settings).find((each) => each.name === name)!;
  const { numBlocks, enablePrefixCaching } = poolOf(settings, seat);
  return {
    block_size: String(settings.blockSize),
    cache_dtype: settings.kvDtype === 'f16' ? 'float16' : 'float32',
    enable_prefix_caching: enablePrefixCaching ? 'True' : 'False',
    num_gpu_blocks: String(numBlocks),
    prefix_caching_hash_algo: 'sha256',
  };
}
