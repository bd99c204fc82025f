/** Creates both sides of the NIXL connector (pull mode) and the cost-aware policy that decides between pulling and computing. */
import type { NixlConfig } from '../../config/kv-transfer.ts';
import { CostAwarePolicy } from '../policy/cost-aware.ts';
import type { ConnectorDeps, EngineConnector } from '../types.ts';
import { NixlSchedulerSide } from './scheduler-side.ts';
import { NixlWorkerSide } from './worker-side.ts';

export function createNixlConnector(config: NixlConfig, deps: ConnectorDeps): EngineConnector {
  const { transport, clock, claim, onHoldDropped, onPull, onChunk, onTransfer } = deps;
  const { engineId, host, port, cache, scheduler } = deps.engine;
  const { blockSize, groups } = cache;
  const { maxNumBatchedTokens } = scheduler;
  const profile = config.costProfile;
  const costAware = profile ? new CostAwarePolicy({ profile, blockSize, groups, maxNumBatchedTokens }) : null;
  const schedulerSide = new NixlSchedulerSide({
    config,
    engineId,
    host,
    port,
    blockSize,
    groups,
    clock,
    costAware,
    pullsAreWeighed: deps.pullsAreWeighed ?? false,
    claim,
  });
  const workerSide = new NixlWorkerSide({
    config,
    groups,
    transport,
    clock,
    claim,
    keptElsewhere: deps.keptElsewhere,
    onHoldDropped,
    onPull,
    onChunk,
    onTransfer(info) {
      costAware?.ended(info.requestId, info.result.outcome === 'done' ? info.result.wallMs : null);
      onTransfer(info);
    },
  });
  const { holds, counters } = workerSide;
  return { scheduler: schedulerSide, worker: workerSide, holds, streams: schedulerSide, counters, costAware };
}
