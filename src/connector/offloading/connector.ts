/** Creates both sides of vLLM's OffloadingConnector, using a store shared by the cluster's engines. */
import { OFFLOADING_DEFAULTS, type OffloadingConfig, STORE_ADDRESS } from '../../config/connectors.ts';
import type { ConnectorDeps, EngineConnector } from '../types.ts';
import { StoreAnswers } from './answers.ts';
import type { Lookup } from './metadata.ts';
import { OffloadingSchedulerSide } from './scheduler-side.ts';
import { OffloadingWorkerSide } from './worker-side.ts';

export function createOffloadingConnector(
  config: OffloadingConfig = OFFLOADING_DEFAULTS,
  deps: ConnectorDeps,
): EngineConnector {
  const { transport, clock } = deps;
  const { engineId, cache } = deps.engine;
  const answers = new StoreAnswers();
  const scheduler = new OffloadingSchedulerSide({
    ...{ config, engineId, clock, answers, sendLookup: (lookup: Lookup) => worker.sendLookup(lookup) },
    blockSize: cache.blockSize,
    groups: cache.groups,
    worthOfBlockMs: deps.worthOfBlockMs,
    peersHandOver: deps.composed === true && !config.handsOver,
  });
  const worker = new OffloadingWorkerSide({ ...deps, transport, store: STORE_ADDRESS, clock, answers });
  const { counters, storeCounters } = worker;
  const store = {
    counters: storeCounters,
    storedTokens: (requestId: string) => scheduler.storedTokens(requestId),
  };
  return { scheduler, worker, streams: scheduler, counters, costAware: null, store };
}
