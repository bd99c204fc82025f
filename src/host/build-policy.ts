/** Builds the policy on top of an engine's lasting parts: its connector and the engine core. */

import { STORE_ADDRESS } from '../config/connectors.ts';
import type { EngineCoreConfig } from '../config/engine.ts';
import { createConnector } from '../connector/registry.ts';
import type { EngineConnector } from '../connector/types.ts';
import { BlockResidency } from '../engine/block-residency.ts';
import { EngineCore } from '../engine/engine-core.ts';
import { effectiveGroups } from '../engine/kv-cache-spec.ts';
import type { Clock } from '../engine/types.ts';
import { sumOf } from '../sum.ts';
import type { BlockPair } from '../transport/types.ts';
import type { EngineParts } from './build-engine.ts';
import type { EngineEvent } from './engine-report.ts';
import type { EngineSpans } from './engine-spans.ts';

export interface EnginePolicy {
  core: EngineCore;
  /** null: the engine neither sends nor pulls. */
  connector: EngineConnector | null;
}

export function buildPolicy(
  { coreDeps, transport, eosTokenIds, vocabSize, groups }: EngineParts,
  clock: Clock,
  coreConfig: EngineCoreConfig,
  send: (event: EngineEvent) => void,
  spans: EngineSpans,
): EnginePolicy {
  const { cache } = coreConfig;
  const config = {
    ...coreConfig,
    eosTokenIds,
    vocabSize,
    cache: { ...cache, groups: effectiveGroups(groups, cache.allFullKv) },
  };
  const bytesOf = (pairs: readonly BlockPair[]): number =>
    sumOf(pairs, ({ group }) => transport.identity.blockBytes[group]!);
  let dropReported = false;
  const connector =
    config.connector &&
    createConnector(config.connector, {
      engine: config,
      transport,
      clock,
      onHoldDropped(requestId, direction) {
        if (!dropReported) send({ kind: 'hold_dropped', requestId, direction });
        dropReported = true;
      },
      onPull: ({ requestId, remote, pairs, streamed }) =>
        send({
          kind: 'pull',
          requestId,
          remoteEngineId: remote.engineId,
          pairs: streamed ? [] : idsOf(pairs),
          streamed,
          bytes: bytesOf(pairs),
          atMs: clock.now(),
        }),
      onChunk: ({ requestId, pairs }) =>
        send({ kind: 'chunk', requestId, pairs: idsOf(pairs), atMs: clock.now() }),
      onStored(info) {
        spans.stored(info);
        const { requestId, pairs = [], startedMs, endedMs } = info;
        if (pairs.length > 0)
          send({
            kind: 'saved',
            requestId,
            remoteEngineId: STORE_ADDRESS.engineId,
            pairs: pairs.map(({ local, remote }) => [local, remote]),
            bytes: bytesOf(pairs),
            startedMs,
            atMs: endedMs,
          });
      },
      onTransfer(info) {
        const { requestId, remote, result, endedMs } = info;
        spans.transferred(info);
        send({ kind: 'transfer', requestId, remoteEngineId: remote.engineId, result, atMs: endedMs });
      },
    });
  const costAware = connector?.costAware;
  const { metricsSample: share } = cache;
  const core = new EngineCore({
    ...coreDeps,
    config,
    connector,
    onActivity: spans.activity,
    ...(share ? { residency: new BlockResidency({ clock, share, random: Math.random }) } : {}),
    ...(costAware ? { onBatch: (batch, ms) => costAware.stepRan(batch.requests, ms) } : {}),
  });
  return { core, connector };
}

const idsOf = (pairs: readonly BlockPair[]): [remote: number, local: number][] =>
  pairs.map(({ remote, local }) => [remote, local]);
