/** The policy on top of an engine's lasting parts: both sides of the connector, the cost-aware decision, the engine core. */

import type { EngineCoreConfig } from '../config/engine.ts';
import { NixlSchedulerSide } from '../connector/nixl/scheduler-side.ts';
import { NixlWorkerSide } from '../connector/nixl/worker-side.ts';
import { CostAwarePolicy } from '../connector/policy/cost-aware.ts';
import { EngineCore } from '../engine/engine-core.ts';
import type { BlockPair } from '../engine/kv-connector.ts';
import type { Clock } from '../engine/types.ts';
import type { EngineParts } from './build-engine.ts';
import type { EngineEvent } from './engine-api.ts';
import type { EngineSpans } from './engine-spans.ts';

export interface EnginePolicy {
  core: EngineCore;
  /** null: the engine neither sends nor pulls. */
  worker: NixlWorkerSide | null;
  /** null: the threshold decides. */
  costAware: CostAwarePolicy | null;
}

export function buildPolicy(
  parts: EngineParts,
  clock: Clock,
  coreConfig: EngineCoreConfig,
  send: (event: EngineEvent) => void,
  spans: EngineSpans,
): EnginePolicy {
  const deps = { ...parts.coreDeps, onActivity: spans.activity };
  const config = { ...coreConfig, eosTokenIds: parts.eosTokenIds };
  if (!config.connector) {
    const core = new EngineCore({ ...deps, config, connector: null });
    return { core, worker: null, costAware: null };
  }
  const costAware = costAwarePolicy(config);
  const scheduler = new NixlSchedulerSide({
    config: config.connector,
    engineId: config.engineId,
    host: config.host,
    port: config.port,
    blockSize: config.cache.blockSize,
    clock,
    costAware,
  });
  const worker = new NixlWorkerSide({
    config: config.connector,
    transport: parts.transport,
    clock,
    onPull: ({ requestId, remote, pairs, streamed }) =>
      send({
        kind: 'pull',
        requestId,
        remoteEngineId: remote.engineId,
        pairs: streamed ? [] : idsOf(pairs),
        streamed,
        bytes: pairs.reduce((sum, { group }) => sum + parts.transport.identity.blockBytes[group]!, 0),
        atMs: clock.now(),
      }),
    onChunk: ({ requestId, pairs }) =>
      send({ kind: 'chunk', requestId, pairs: idsOf(pairs), atMs: clock.now() }),
    onTransfer(info) {
      const { requestId, remote, result, endedMs } = info;
      spans.transferred(info);
      costAware?.ended(requestId, result.outcome === 'done' ? result.wallMs : null);
      const remoteEngineId = remote.engineId;
      send({ kind: 'transfer', requestId, remoteEngineId, result, atMs: endedMs });
    },
  });
  const core = new EngineCore({
    ...deps,
    config,
    connector: { scheduler, worker },
    ...(costAware
      ? {
          onBatch: ({ requests }, ms) =>
            costAware.stepRan(
              requests.map(({ startPosition, tokenIds }) => ({
                start: startPosition,
                tokens: tokenIds.length,
              })),
              ms,
            ),
        }
      : {}),
  });
  return { core, worker, costAware };
}

function costAwarePolicy({ connector, cache, scheduler }: EngineCoreConfig): CostAwarePolicy | null {
  const profile = connector?.costProfile;
  if (!profile) return null;
  const { blockSize } = cache;
  return new CostAwarePolicy({ profile, blockSize, maxNumBatchedTokens: scheduler.maxNumBatchedTokens });
}

const idsOf = (pairs: readonly BlockPair[]): [remote: number, local: number][] =>
  pairs.map(({ remote, local }) => [remote, local]);
