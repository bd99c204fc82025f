/** Turns a user's configuration into a cluster's options; fills in what depends on the model and the adapter. */
import { AIBRIX_LEAST_BLOCKS, isLmcache, LMCACHE_CHUNK } from '../config/connectors.ts';
import { offloadingExtraSchema } from '../config/kv-connectors.ts';
import { type ConnectorConfig, kvTransferConfigSchema, namedConnectors } from '../config/kv-transfer.ts';
import type { RoutingChoice } from '../config/routing.ts';
import { optionName, type RunConfig } from '../config/run.ts';
import { ConfigError } from '../errors.ts';
import { kvCacheSpecs, kvGroups, kvPageBytes } from '../model/architecture/kv-groups.ts';
import type { Architecture } from '../model/types.ts';
import { PIECE_BYTES, weightBytesADispatch } from '../model/weights/weight-sizes.ts';
import { WAIT_30S } from '../router/scaling/drain.ts';
import { parseLink } from '../transport/link.ts';
import { type FleetOptions, fleetOf } from './seats.ts';
import type { ClusterOptions, StoreOptions } from './types.ts';

/** Default for the longest sequence, in tokens. Longer ones cost memory that most runs never use. */
export const DEFAULT_MAX_MODEL_LEN = 8192;

/**
 * Limit on the bytes that the default pools of all D together reserve for holds. That is little compared with a
 * model's weights, and enough for about a hundred turns of a small one.
 */
const MOST_HOLD_BYTES = 2 ** 26;

/**
 * Blocks added to one D's pool for what it holds for next turns: as many sequences as run at once, up to its share of
 * MOST_HOLD_BYTES.
 */
function blocksForHolds(
  maxNumSeqs: number,
  perSequence: number,
  pageBytes: number,
  { seats }: FleetOptions,
): number {
  const bytes = MOST_HOLD_BYTES / Math.max(1, seats.filter(({ role }) => role === 'decode').length);
  return Math.min(maxNumSeqs * perSequence, Math.floor(bytes / pageBytes));
}

/**
 * Default pool sizes of P and D, in blocks: room for two of the longest sequences with all their KV, even if windows
 * save some of it. On a software adapter limited to what it can bind at once.
 */
function defaultPools(
  config: RunConfig,
  architecture: Architecture,
  { maxModelLen, fleet, software }: { maxModelLen: number; fleet: FleetOptions; software: boolean },
): { prefill: number; decode: number } {
  const { blockSize, kvDtype, maxNumSeqs } = config;
  const groups = kvGroups(architecture);
  const pageBytes = kvPageBytes(groups, architecture, blockSize, kvDtype);
  const bound = software ? Math.floor(PIECE_BYTES / pageBytes) : Number.POSITIVE_INFINITY;
  const perSequence = groups.groups.length * Math.ceil(maxModelLen / blockSize);
  const roomForTwo = 2 * perSequence + 1;
  const roomForHolds = blocksForHolds(maxNumSeqs, perSequence, pageBytes, fleet);
  return { prefill: Math.min(roomForTwo, bound), decode: Math.min(roomForTwo + roomForHolds, bound) };
}

/** Default tokens per step. A software adapter needs seconds for 2,048 rows, too long for other requests to wait. */
export const rowsAStep = (software: boolean): number => (software ? 256 : 2048);

/** `label` gives a key as the user wrote it, for messages. Throws ConfigError. */
export function clusterOptions(
  config: RunConfig,
  architecture: Architecture,
  software: boolean,
  label: (key: string) => string = optionName,
): ClusterOptions {
  const maxModelLen = config.maxModelLen ?? Math.min(architecture.maxModelLen, DEFAULT_MAX_MODEL_LEN);
  if (maxModelLen > architecture.maxModelLen) {
    throw new ConfigError(
      `${label('maxModelLen')} is ${maxModelLen}, but ${architecture.name} goes up to ${architecture.maxModelLen} tokens: give at most that`,
    );
  }
  const fleet = fleetOf(config);
  const pools = defaultPools(config, architecture, { maxModelLen, fleet, software });
  return {
    model: config.model,
    weightSeed: config.seed,
    weightDtype: config.weightDtype,
    kvDtype: config.kvDtype,
    layout: config.layout,
    mode: config.mode.at(-1) ?? 'bidirectional',
    blockSize: config.blockSize,
    kvCacheGroups: kvCacheSpecs(architecture),
    allFullKv: config.allFullKv,
    prefill: { numBlocks: config.pBlocks ?? pools.prefill, enablePrefixCaching: config.prefixCaching },
    decode: { numBlocks: config.dBlocks ?? pools.decode, enablePrefixCaching: true },
    fleet,
    placement: config.modeOfFleet,
    maxNumBatchedTokens: config.maxNumBatchedTokens ?? rowsAStep(software),
    maxNumSeqs: config.maxNumSeqs,
    maxModelLen,
    connector: connector(config, label),
    handover: config.handover,
    store: storeOptions(config),
    routing: routingChoice(config, config.routing[0]!),
    signalAgeMs: config.signalAge,
    drain: { drain: config.drain, holdsMs: config.drainTimeout ?? WAIT_30S.holdsMs },
    link: config.link === null ? null : parseLink(config.link),
    checksum: false,
    autotune: config.autotune,
    arithmetic: config.arithmetic,
    decodeDriverThreads: decodeDriverThreads(config, architecture, software),
    decodeKernels: decodePrefills(config) ? 'all' : 'one row',
    kvCacheMetricsSample: config.kvCacheMetrics ? config.kvCacheMetricsSample : null,
    keepLogits: false,
    poison: false,
    fault: null,
  };
}

function storeOptions(config: RunConfig): StoreOptions | null {
  const { store, storeEviction: eviction, storeDir, storeDirSize, storeUrl, storeTtl } = config;
  if (store === null) return null;
  const ttlMs = storeTtl === null ? null : storeTtl * 1000;
  const below = { ttlMs, ingestion: config.storeWrite };
  const folder = storeDir === null ? null : { directory: storeDir, bytes: storeDirSize, ...below };
  const server = storeUrl === null ? null : { url: storeUrl, ...below };
  const { storePrefetch: prefetch, storePlace } = config;
  return { bytes: store, eviction, prefetch, remote: storePlace === 'remote', folder, server };
}

/** Weight bytes per dispatch. Above this, computing takes longer than waking the threads that share a kernel. */
const MOST_BYTES_ALONE = 400_000;

/**
 * Off only if no requested mode lets D prefill: modes that are compared use the same engines, and none should be
 * slowed by a D built for decode.
 */
function decodeDriverThreads(config: RunConfig, architecture: Architecture, software: boolean): boolean {
  if (config.decodeDriverThreads !== 'auto') return config.decodeDriverThreads === 'on';
  const small = weightBytesADispatch(architecture, config.weightDtype) < MOST_BYTES_ALONE;
  return !(software && small && !decodePrefills(config));
}

/** For measurements: all kernels are compiled at the start, so no step waits for one. */
export const forMeasuring = (options: ClusterOptions): ClusterOptions => ({
  ...options,
  decodeKernels: 'all',
});

/** Whether some requested mode lets D prefill. */
const decodePrefills = ({ mode }: RunConfig): boolean =>
  mode.some((each) => each === 'monolithic' || each === 'decode-local');

/** `name`: one of the names that `routing` lists. */
export const routingChoice = ({ routingConfig }: RunConfig, name: string): RoutingChoice => ({
  name,
  parameters: routingConfig ?? {},
});

function connector(config: RunConfig, label: (key: string) => string): ConnectorConfig {
  const transferConfig = kvTransferConfigSchema.parse(config.kvTransferConfig ?? {});
  const { composition, names, nixl, offloading } = namedConnectors(transferConfig);
  const { blockSize } = config;
  // --store together with NIXL: what is in the store is not sent again; everything else still is.
  const added = config.store !== null && !offloading;
  const chunk = offloading?.extra ?? offloadingExtraSchema.parse({});
  const name = offloading?.name ?? 'OffloadingConnector';
  const usual = isLmcache(name) ? Math.max(LMCACHE_CHUNK, blockSize) : blockSize;
  const chunkTokens =
    chunk.block_size ?? (chunk.blocks_per_chunk ? chunk.blocks_per_chunk * blockSize : usual);
  if (chunkTokens % blockSize !== 0) {
    throw new ConfigError(
      `block_size in ${label('kvTransferConfig')} is ${chunkTokens} tokens and ${label('blockSize')} is ${blockSize}: give a multiple of it`,
    );
  }
  return {
    name: added ? 'MultiConnector' : transferConfig.kv_connector,
    loadFailurePolicy: config.loadFailurePolicy,
    nixl: {
      bidirectional: nixl?.extra.bidirectional_kv_xfer ?? false,
      recomputeThreshold: config.threshold,
      decoderTtlMs: config.ttl * 1000,
      leaseMs: config.lease * 1000,
      enforceHandshakeCompat: nixl?.extra.enforce_handshake_compat ?? true,
      tokenCheck: config.tokenCheck,
    },
    offloading: {
      blocksPerChunk: chunkTokens / blockSize,
      storeThreshold: chunk.store_threshold,
      maxTrackerSize: chunk.max_tracker_size,
      promptOnly: config.offloadPromptOnly,
      handsOver: nixl === null,
      // AIBrix's rule: max(8 engine blocks, one cache block), except for reuse between P and D.
      minLoadTokens: name.startsWith('AIBrixOffloading') ? AIBRIX_LEAST_BLOCKS * blockSize : 0,
      saves: offloading?.saves ?? 'blocks',
    },
    multi: added
      ? {
          composition: config.pullPolicy === 'cost-aware' ? 'cost-aware' : 'compose',
          names: [...names, 'OffloadingConnector'],
        }
      : { composition: composition ?? 'first-hit', names },
  };
}
