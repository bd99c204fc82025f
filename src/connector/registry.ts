/** Creates connectors by vLLM's kv_connector name. Each has a folder, settings in src/config/kv-transfer.ts, and a case here. */
import { CONNECTOR_NAMES } from '../config/connectors.ts';
import type { ConnectorConfig } from '../config/kv-transfer.ts';
import { ConfigError } from '../errors.ts';
import { createMultiConnector } from './multi/connector.ts';
import { createNixlConnector } from './nixl/connector.ts';
import { createOffloadingConnector } from './offloading/connector.ts';
import type { ConnectorDeps, EngineConnector } from './types.ts';

/** Creates both sides of a connector for one engine. Throws ConfigError for an unknown name. */
export function createConnector(config: ConnectorConfig, deps: ConnectorDeps): EngineConnector {
  switch (config.name) {
    case 'NixlConnector':
    case 'NixlPullConnector':
      return createNixlConnector(config.nixl, deps);
    case 'OffloadingConnector':
    case 'AIBrixOffloadingConnector':
    case 'AIBrixOffloadingConnectorV1Type1':
    case 'AIBrixOffloadingConnectorV1Type2':
    case 'AIBrixOffloadingConnectorV1Type3':
    case 'AIBrixPDReuseConnector':
    case 'LMCacheConnectorV1':
    case 'LMCacheConnectorV1Dynamic':
      return createOffloadingConnector(config.offloading, deps);
    case 'MultiConnector': {
      const { composition, names } = config.multi ?? { composition: 'first-hit', names: ['NixlConnector'] };
      const makers = names.map((name) => (its: ConnectorDeps) => createConnector({ ...config, name }, its));
      const { store, link } = config.nixl.costProfile ?? {};
      const known = store ? { load: store.load, linked: link !== null } : null;
      return createMultiConnector(composition, makers, deps, known);
    }
    default:
      throw new ConfigError(
        `there is no KV connector '${config.name satisfies never}': wanted one of ${CONNECTOR_NAMES.join(', ')}`,
      );
  }
}
