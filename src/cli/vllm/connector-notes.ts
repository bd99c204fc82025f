/** Notes of exports about the connectors in --kv-transfer-config. */
import { type ConnectorName, isLmcache, isNixl } from '../../config/connectors.ts';
import type { NamedConnectors } from '../../config/kv-transfer.ts';
import type { RunConfig } from '../../config/run.ts';
import { connectorsOf, tiering } from './engines.ts';

/** What --kv-transfer-config cannot express, or means otherwise in vLLM, and what belongs to it. */
export function connectorNotes(config: RunConfig): string[] {
  const connectors = connectorsOf(config);
  const { composition } = connectors;
  return [
    ...(composition === null || composition === 'first-hit'
      ? []
      : [
          `composition ${composition} exists only in kvferry: vLLM's MultiConnector uses the first connector that has a hit.`,
        ]),
    ...offloadingNotes(config, connectors),
  ];
}

/** Prefix of the environment variables that the connector is configured with; null: by its JSON. */
function environmentOf(name: ConnectorName): string | null {
  if (name.startsWith('AIBrix')) return 'AIBRIX_KV_CACHE_OL_';
  return isLmcache(name) ? 'LMCACHE_' : null;
}

/** kvferry's store is one for all engines. */
function offloadingNotes(config: RunConfig, { names, offloading }: NamedConnectors): string[] {
  if (!offloading) return [];
  const prefix = environmentOf(offloading.name);
  if (prefix !== null)
    return [
      `${offloading.name} reads its store's settings from the environment: set ${prefix}* for each engine (docs/store.md names them).`,
    ];
  const own = 'With OffloadingConnector each engine of vLLM has store memory of its own.';
  if (tiering(config, offloading.extra))
    return [
      `${own} The engines share only the folder ${config.storeDir}: give them the same file system there, and the same PYTHONHASHSEED.`,
    ];
  return [
    names.some(isNixl)
      ? own
      : `${own} D finds nothing there that P saved, and computes the prompt again: add NixlConnector in a MultiConnector, or give --store-dir.`,
  ];
}
