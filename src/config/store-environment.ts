/**
 * Settings of a store as AIBrix's and LMCache's deployments give them: in environment variables, beside a connector of theirs
 * in --kv-transfer-config. Those that mean nothing here are let be.
 */
import { ConfigError } from '../errors.ts';
import type { RunConfigInput } from './run-schema.ts';
import { withoutPassword, wrongInStoreUrl } from './store-url.ts';

type Environment = (name: string) => string | null;

const GB = 2 ** 30;
/** AIBrix has 10 GB and LMCache 5, of a server's memory. */
const UNLESS_TOLD = GB;

/** What the environment says for the connectors that the JSON names; an option or a config file wins over it. Throws ConfigError. */
export function storeFromEnvironment(transferConfig: unknown, environment: Environment): RunConfigInput {
  const named = JSON.stringify(transferConfig ?? null);
  if (named.includes('AIBrix')) return aibrix(environment);
  return named.includes('LMCacheConnector') ? lmcache(environment) : {};
}

function aibrix(environment: Environment): RunConfigInput {
  const read = (name: string): string | null => environment(`AIBRIX_KV_CACHE_OL_${name}`);
  const backend = read('L2_CACHE_BACKEND') ?? '';
  if (backend !== '' && backend.toUpperCase() !== 'ROCKSDB') {
    throw new ConfigError(
      `AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND is ${backend}: wanted ROCKSDB, in whose place is a folder (AIBRIX_KV_CACHE_OL_ROCKSDB_ROOT), or nothing`,
    );
  }
  const policy = read('L1_CACHE_EVICTION_POLICY');
  const ttl = read('ROCKSDB_TTL_S');
  return {
    store: bytesOf(read('L1_CACHE_CAPACITY_GB'), 'AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB') ?? UNLESS_TOLD,
    storeEviction: (policy ?? 'S3FIFO').toLowerCase() as 's3fifo',
    ...(backend === ''
      ? {}
      : {
          storeDir: read('ROCKSDB_ROOT') ?? 'aibrix-kvcache',
          storeTtl: Number(ttl ?? 600),
          storeWrite: (read('L2_CACHE_INGESTION_TYPE') ?? 'HOT') as 'HOT',
        }),
  };
}

function lmcache(environment: Environment): RunConfigInput {
  const read = (name: string): string | null => environment(`LMCACHE_${name}`);
  const remote = read('REMOTE_URL');
  const wrong = remote === null ? null : wrongInStoreUrl(remote);
  if (remote !== null && wrong !== null) {
    throw new ConfigError(
      `LMCACHE_REMOTE_URL is ${withoutPassword(remote)}, which ${wrong}: wanted redis://HOST:PORT; the other remote stores of LMCache's are not here`,
    );
  }
  const disk = read('LOCAL_DISK')?.replace(/^file:\/\//, '');
  const diskBytes = bytesOf(read('MAX_LOCAL_DISK_SIZE'), 'LMCACHE_MAX_LOCAL_DISK_SIZE');
  return {
    store: bytesOf(read('MAX_LOCAL_CPU_SIZE'), 'LMCACHE_MAX_LOCAL_CPU_SIZE') ?? UNLESS_TOLD,
    storeEviction: 'lru',
    ...(remote === null ? {} : { storeUrl: remote }),
    ...(disk ? { storeDir: disk } : {}),
    ...(disk && diskBytes !== null ? { storeDirSize: diskBytes } : {}),
    ...(/^true$/i.test(read('SAVE_DECODE_CACHE') ?? '') ? { offloadPromptOnly: false } : {}),
  };
}

function bytesOf(gigabytes: string | null, name: string): number | null {
  if (gigabytes === null) return null;
  const bytes = Math.round(Number(gigabytes) * GB);
  if (bytes > 0) return bytes;
  throw new ConfigError(`${name} is ${gigabytes}: wanted a number of gigabytes above 0`);
}
