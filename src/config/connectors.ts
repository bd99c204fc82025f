/**
 * Connector names, defaults and addresses, for engine threads. The schemas for user input are in kv-transfer.ts, which
 * engine threads do not load.
 */
/** All connectors. src/connector/registry.ts maps each name to its implementation. */
export const CONNECTOR_NAMES = [
  'NixlConnector',
  'NixlPullConnector',
  'OffloadingConnector',
  'AIBrixOffloadingConnector',
  'AIBrixOffloadingConnectorV1Type1',
  'AIBrixOffloadingConnectorV1Type2',
  'AIBrixOffloadingConnectorV1Type3',
  'AIBrixPDReuseConnector',
  'LMCacheConnectorV1',
  'LMCacheConnectorV1Dynamic',
  'MultiConnector',
] as const;
export type ConnectorName = (typeof CONNECTOR_NAMES)[number];

export const isNixl = (name: ConnectorName): boolean =>
  name === 'NixlConnector' || name === 'NixlPullConnector';

/** The second is LMCache's own build of the first. */
export const isLmcache = (name: ConnectorName): boolean =>
  name === 'LMCacheConnectorV1' || name === 'LMCacheConnectorV1Dynamic';

interface Named {
  name: ConnectorName;
  multi?: { names: readonly ConnectorName[] };
}

const singlesOf = ({ name, multi }: Named): readonly ConnectorName[] =>
  name === 'MultiConnector' ? (multi?.names ?? []) : [name];

/** Whether engines with this connector read from each other. */
export const usesNixl = (connector: Named): boolean => singlesOf(connector).some(isNixl);

/** Whether the connector saves to and loads from a store. */
export const usesStore = (connector: Named): boolean => singlesOf(connector).some((each) => !isNixl(each));

/** Whether this is P's side of a streamed handover. */
export const isStreamedPrefill = (
  params: { streamed?: boolean | null | undefined; do_remote_decode: boolean } | null,
): boolean => params?.streamed === true && params.do_remote_decode;

/** Port in a handover through a store: it names no blocks, and D reads nothing from P itself. */
export const STORE_PORT = -1;

export const isStoreHandover = (
  params: {
    do_remote_prefill: boolean;
    remote_port?: number | null | undefined;
    remote_block_ids?: readonly (readonly number[])[] | null | undefined;
  } | null,
): boolean =>
  params?.do_remote_prefill === true &&
  params.remote_port === STORE_PORT &&
  (params.remote_block_ids ?? []).every((ids) => ids.length === 0);

/** vLLM's OffloadingConnector, in the units the code uses. */
export interface OffloadingConfig {
  /** Blocks per chunk. Loads are whole chunks. */
  blocksPerChunk: number;
  /** Lookups before a block is saved; below 2: saved at once. */
  storeThreshold: number;
  /** Most blocks whose lookups are counted. */
  maxTrackerSize: number;
  /** Generated tokens are not saved. */
  promptOnly: boolean;
  /** P leaves its prompt in the store for D. */
  handsOver: boolean;
  /** Shorter loads are recomputed instead. Tokens. */
  minLoadTokens: number;
  /** When a request's blocks are offered: each once it is computed, or all when the request ends. */
  saves: 'blocks' | 'whole';
}

/** Tokens per chunk; LMCACHE_CHUNK_SIZE's default. */
export const LMCACHE_CHUNK = 256;
/** Blocks. AIBrix's offloading recomputes shorter loads. */
export const AIBRIX_LEAST_BLOCKS = 8;

export const OFFLOADING_DEFAULTS: OffloadingConfig = {
  blocksPerChunk: 1,
  storeThreshold: 0,
  maxTrackerSize: 64_000,
  promptOnly: true,
  handsOver: true,
  minLoadTokens: 0,
  saves: 'blocks',
};

/** Address of a cluster's store for its engines. As with engine ports, no socket is opened. vLLM's p2p tier uses 5710. */
export const STORE_ADDRESS = { engineId: 'store', host: 'localhost', port: 5710 } as const;
