/** Both sides of vLLM's OffloadingConnector, over a store that the cluster's engines share. */
import { OFFLOADING_DEFAULTS, type OffloadingConfig, STORE_ADDRESS } from '../../config/connectors.ts';
import { ConfigError } from '../../errors.ts';
import type { ConnectorDeps, EngineConnector } from '../types.ts';
import { StoreAnswers } from './answers.ts';
import { OffloadingSchedulerSide } from './scheduler-side.ts';
import { OffloadingWorkerSide } from './worker-side.ts';

/** Throws ConfigError for a model whose layers do not all keep everything. */
export function createOffloadingConnector(
  config: OffloadingConfig = OFFLOADING_DEFAULTS,
  deps: ConnectorDeps,
): EngineConnector {
  const { transport, clock } = deps;
  const { engineId, cache } = deps.engine;
  if (!cache.allFullKv && cache.groups.some(({ kind }) => kind === 'sliding')) {
    throw new ConfigError(
      "this model's windowed layers give KV back that a store would keep: leave --store out, or keep everything with --all-full-kv",
    );
  }
  const answers = new StoreAnswers();
  const scheduler = new OffloadingSchedulerSide({
    ...{ config, engineId, clock, answers },
    blockSize: cache.blockSize,
    worthOfBlockMs: deps.worthOfBlockMs,
  });
  const worker = new OffloadingWorkerSide({ ...deps, transport, store: STORE_ADDRESS, clock, answers });
  const { counters, storeCounters } = worker;
  const store = {
    counters: storeCounters,
    storedTokens: (requestId: string) => scheduler.storedTokens(requestId),
  };
  return { scheduler, worker, streams: scheduler, counters, costAware: null, store };
}
