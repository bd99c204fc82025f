/**
 * Store settings from the environment variables of AIBrix and LMCache deployments, for when --kv-transfer-config names one
 * of their connectors. Variables without a meaning here are ignored.
 */
import { ConfigError } from '../errors.ts';
import { LMCACHE_CHUNK } from './connectors.ts';
import type { RunConfigInput } from './run-schema.ts';
import { EVICTIONS, INGESTIONS } from './store.ts';
import { withoutPassword, wrongInStoreUrl } from './store-url.ts';

type Environment = (name: string) => string | null;

const GB = 2 ** 30;
/** Default store memory in bytes. AIBrix defaults to 10 GB and LMCache to 5 GB, on servers. */
const UNLESS_TOLD = GB;
const AIBRIX_FOLDER = 'aibrix-kvcache';

/** Settings from the environment for the connectors that the JSON names. Options and config files override them. Throws ConfigError. */
export function storeFromEnvironment(transferConfig: unknown, environment: Environment): RunConfigInput {
  const named = JSON.stringify(transferConfig ?? null);
  if (named.includes('AIBrix')) return aibrix(environment);
  return named.includes('LMCacheConnector') ? lmcache(environment) : {};
}

function aibrix(environment: Environment): RunConfigInput {
  const read = (name: string): string | null => environment(`AIBRIX_KV_CACHE_OL_${name}`);
  needMemory("1, AIBrix's default", environment, {
    enabled: 'AIBRIX_KV_CACHE_OL_L1_CACHE_ENABLED',
    size: 'AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB',
  });
  return {
    store: bytesOf(read('L1_CACHE_CAPACITY_GB'), 'AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB') ?? UNLESS_TOLD,
    storeEviction: oneOf(
      EVICTIONS,
      read('L1_CACHE_EVICTION_POLICY')?.toLowerCase() ?? 's3fifo',
      'AIBRIX_KV_CACHE_OL_L1_CACHE_EVICTION_POLICY',
    ),
    ...aibrixFolder(read),
  };
}

/** The folder that stands for AIBrix's L2 cache. */
function aibrixFolder(read: Environment): RunConfigInput {
  const backend = read('L2_CACHE_BACKEND') ?? '';
  if (backend === '') return {};
  const storeWrite = oneOf(
    INGESTIONS,
    read('L2_CACHE_INGESTION_TYPE')?.toUpperCase() ?? 'HOT',
    'AIBRIX_KV_CACHE_OL_L2_CACHE_INGESTION_TYPE',
  );
  switch (backend.toUpperCase()) {
    case 'ROCKSDB':
      return {
        storeDir: read('ROCKSDB_ROOT') ?? AIBRIX_FOLDER,
        storeTtl: secondsOf(read('ROCKSDB_TTL_S') ?? '600', 'AIBRIX_KV_CACHE_OL_ROCKSDB_TTL_S'),
        storeWrite,
      };
    case 'SHFS':
      return { storeDir: read('SHFS_ROOT') ?? AIBRIX_FOLDER, storeWrite };
    default:
      throw new ConfigError(
        `AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND is ${backend}: wanted SHFS or ROCKSDB, for which kvferry has a folder (AIBRIX_KV_CACHE_OL_SHFS_ROOT, _ROCKSDB_ROOT), or nothing`,
      );
  }
}

function lmcache(environment: Environment): RunConfigInput {
  const read = (name: string): string | null => environment(`LMCACHE_${name}`);
  const remote = read('REMOTE_URL');
  const wrong = remote === null ? null : wrongInStoreUrl(remote);
  if (remote !== null && wrong !== null) {
    throw new ConfigError(
      `LMCACHE_REMOTE_URL is ${withoutPassword(remote)}, which ${wrong}: wanted redis://HOST:PORT; LMCache's other remote stores are not supported`,
    );
  }
  const file = read('CONFIG_FILE');
  if (file !== null) {
    throw new ConfigError(
      `LMCACHE_CONFIG_FILE is ${file}, but kvferry reads only environment variables: unset it, and set LMCACHE_MAX_LOCAL_CPU_SIZE and the other variables in docs/store.md`,
    );
  }
  const chunk = read('CHUNK_SIZE');
  if (chunk !== null && Number(chunk) !== LMCACHE_CHUNK) {
    throw new ConfigError(
      `LMCACHE_CHUNK_SIZE is ${chunk}: wanted ${LMCACHE_CHUNK}, LMCache's default; for another size use OffloadingConnector with block_size`,
    );
  }
  const policy = read('CACHE_POLICY');
  if (policy !== null && policy.toUpperCase() !== 'LRU') {
    throw new ConfigError(
      `LMCACHE_CACHE_POLICY is ${policy}: wanted LRU, LMCache's default, which is the only one of its policies here`,
    );
  }
  needMemory("true, LMCache's default", environment, {
    enabled: 'LMCACHE_LOCAL_CPU',
    size: 'LMCACHE_MAX_LOCAL_CPU_SIZE',
  });
  const disk = read('LOCAL_DISK')?.replace(/^file:\/\//, '');
  const diskBytes = bytesOf(read('MAX_LOCAL_DISK_SIZE'), 'LMCACHE_MAX_LOCAL_DISK_SIZE');
  return {
    store: bytesOf(read('MAX_LOCAL_CPU_SIZE'), 'LMCACHE_MAX_LOCAL_CPU_SIZE') ?? UNLESS_TOLD,
    storeEviction: 'lru',
    ...(remote === null ? {} : { storeUrl: remote }),
    ...(disk ? { storeDir: disk } : {}),
    ...(disk && diskBytes !== null ? { storeDirSize: diskBytes } : {}),
    ...(isOn('LMCACHE_SAVE_DECODE_CACHE', environment, false) ? { offloadPromptOnly: false } : {}),
  };
}

function oneOf<const T extends string>(wanted: readonly T[], found: string, name: string): T {
  const known = wanted.find((each) => each === found);
  if (known !== undefined) return known;
  throw new ConfigError(`${name} is ${found}: wanted one of ${wanted.join(', ')}`);
}

const isOn = (name: string, environment: Environment, unlessTold: boolean): boolean =>
  ['true', '1'].includes(
    oneOf(['true', '1', 'false', '0'], (environment(name) ?? String(unlessTold)).toLowerCase(), name),
  );

/** Throws ConfigError if the environment switches the store's memory off. */
function needMemory(
  wanted: string,
  environment: Environment,
  names: { enabled: string; size: string },
): void {
  if (isOn(names.enabled, environment, true)) return;
  throw new ConfigError(
    `${names.enabled} is ${environment(names.enabled)}: wanted ${wanted}; the store here always keeps blocks in memory, as few as ${names.size} says`,
  );
}

function secondsOf(found: string, name: string): number {
  if (Number(found) > 0) return Number(found);
  throw new ConfigError(`${name} is ${found}: wanted a number of seconds above 0`);
}

function bytesOf(gigabytes: string | null, name: string): number | null {
  if (gigabytes === null) return null;
  const bytes = Math.round(Number(gigabytes) * GB);
  if (bytes > 0) return bytes;
  throw new ConfigError(`${name} is ${gigabytes}: wanted a number of gigabytes above 0`);
}
