/**
 * What engines' threads know of connectors: names, defaults, addresses. Without the schemas, which only those need who read
 * what a user wrote (kv-transfer.ts).
 */
/** Every connector that there is; src/connector/registry.ts says what makes each. */
export const CONNECTOR_NAMES = [
  'NixlConnector',
  'NixlPullConnector',
  'OffloadingConnector',
  'AIBrixOffloadingConnectorV1Type1',
  'AIBrixOffloadingConnectorV1Type2',
  'AIBrixOffloadingConnectorV1Type3',
  'AIBrixPDReuseConnector',
  'LMCacheConnectorV1',
  'MultiConnector',
] as const;
export type ConnectorName = (typeof CONNECTOR_NAMES)[number];

export const isNixl = (name: ConnectorName): boolean =>
  name === 'NixlConnector' || name === 'NixlPullConnector';

/** Whether it saves to a store and loads from it. */
export const usesStore = (connector: {
  name: ConnectorName;
  multi?: { names: readonly ConnectorName[] };
}): boolean => {
  const { name, multi } = connector;
  return name === 'MultiConnector' ? (multi?.names ?? []).some((each) => !isNixl(each)) : !isNixl(name);
};

/** P's side of a streamed hand-over. */
export const isStreamedPrefill = (
  params: { streamed?: boolean | null | undefined; do_remote_decode: boolean } | null,
): boolean => params?.streamed === true && params.do_remote_decode;

/** What P leaves in a store for D names no blocks and this port: of P itself nothing is read. */
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
  /** Loads come in whole chunks of so many blocks. */
  blocksPerChunk: number;
  /** A block is saved when it was asked for so often; below 2 at once. */
  storeThreshold: number;
  /** Blocks whose askings are counted. */
  maxTrackerSize: number;
  /** What is generated is not saved. */
  promptOnly: boolean;
  /** P leaves its prompt in the store for D. */
  handsOver: boolean;
  /** Loads of fewer tokens are computed instead. */
  minLoadTokens: number;
  /** When a request's blocks are offered: each as it is computed, or all when it ends. */
  saves: 'blocks' | 'whole';
}

/** Tokens to a chunk: LMCACHE_CHUNK_SIZE's default. */
export const LMCACHE_CHUNK = 256;
/** Blocks: AIBrix's offloading computes what is shorter. */
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

/** Where a cluster's store is found by its engines; as with their own ports no socket is opened. vLLM's p2p tier has 5710. */
export const STORE_ADDRESS = { engineId: 'store', host: 'localhost', port: 5710 } as const;
