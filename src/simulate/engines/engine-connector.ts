/** A simulated engine's connector: the real one, over the simulated transport. */
import type { EngineCoreConfig } from '../../config/engine.ts';
import { createConnector } from '../../connector/registry.ts';
import type { ConnectorDeps, EngineConnector } from '../../connector/types.ts';
import { filledBytes } from '../../engine/kv-cache-spec.ts';
import { SimulatedTransport, type TransportNet } from '../network/transport.ts';

interface SimulatedConnectorDeps
  extends Pick<ConnectorDeps, 'clock' | 'claim' | 'onPull' | 'onStored' | 'onTransfer'> {
  net: TransportNet;
  /** Bytes of a KV block in the pool, whichever group it belongs to. */
  blockBytes: number;
}

/** Returns null for an engine without a connector, which hands nothing over. */
export function connectorOf(
  config: EngineCoreConfig,
  { net, blockBytes, ...deps }: SimulatedConnectorDeps,
): EngineConnector | null {
  const { engineId, host, port, cache, connector } = config;
  if (!connector) return null;
  const identity = {
    ...{ engineId, host, port },
    compatibilityHash: 'simulated',
    blockSize: cache.blockSize,
    blockBytes: cache.groups.map((spec) => filledBytes(spec, blockBytes)),
  };
  return createConnector(connector, {
    ...deps,
    engine: config,
    transport: new SimulatedTransport(identity, net),
    onHoldDropped() {},
    onChunk() {},
  });
}
