import { describe, expect, test } from 'vitest';
import { parseRunConfig } from '../../src/config/run.ts';
import { storeFromEnvironment } from '../../src/config/store-environment.ts';

const config = (kv_connector: string, env: Record<string, string>) => {
  const kvTransferConfig = { kv_connector, kv_role: 'kv_both' };
  const told = storeFromEnvironment(kvTransferConfig, (name) => env[name] ?? null);
  const { store, storeEviction, storeDir, storeUrl, storeTtl, storeWrite, offloadPromptOnly } =
    parseRunConfig({ ...told, kvTransferConfig });
  return { store, storeEviction, storeDir, storeUrl, storeTtl, storeWrite, offloadPromptOnly };
};

describe('store settings from the environment', () => {
  test("have AIBrix's defaults, except for 1 GiB of memory in place of 10 GB", () => {
    expect(config('AIBrixOffloadingConnectorV1Type1', {})).toMatchObject({
      store: 2 ** 30,
      storeEviction: 's3fifo',
      storeDir: null,
    });
  });

  test("are read from AIBrix's variables", () => {
    const env = {
      AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB: '0.5',
      AIBRIX_KV_CACHE_OL_L1_CACHE_EVICTION_POLICY: 'LRU',
      AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND: 'ROCKSDB',
      AIBRIX_KV_CACHE_OL_ROCKSDB_ROOT: '/kv',
    };
    expect(config('AIBrixPDReuseConnector', env)).toMatchObject({
      store: 2 ** 29,
      storeEviction: 'lru',
      storeDir: '/kv',
      storeTtl: 600,
      storeWrite: 'HOT',
    });
  });

  test("take AIBrix's shared file system as the folder, without a TTL", () => {
    const env = { AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND: 'SHFS', AIBRIX_KV_CACHE_OL_SHFS_ROOT: '/kvcache' };
    expect(config('AIBrixPDReuseConnector', env)).toMatchObject({
      storeDir: '/kvcache',
      storeTtl: null,
      storeWrite: 'HOT',
    });
  });

  test("are read from LMCache's variables", () => {
    const env = {
      LMCACHE_MAX_LOCAL_CPU_SIZE: '2',
      LMCACHE_LOCAL_DISK: 'file:///disk',
      LMCACHE_SAVE_DECODE_CACHE: 'True',
    };
    expect(config('LMCacheConnectorV1', env)).toMatchObject({
      store: 2 ** 31,
      storeEviction: 'lru',
      storeDir: '/disk',
      offloadPromptOnly: false,
    });
  });

  test("take LMCache's remote URL as the server below the store", () => {
    const env = { LMCACHE_REMOTE_URL: 'redis://cache:6379' };
    expect(config('LMCacheConnectorV1', env)).toMatchObject({ storeUrl: 'redis://cache:6379' });
  });

  test('are not read for other connectors', () => {
    expect(storeFromEnvironment({ kv_connector: 'NixlConnector' }, () => '1')).toEqual({});
  });

  test.each([
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND: 'PRISKV' },
      /PRISKV: wanted SHFS or ROCKSDB/,
    ],
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L1_CACHE_ENABLED: '0' },
      /^AIBRIX_KV_CACHE_OL_L1_CACHE_ENABLED is 0: wanted 1/,
    ],
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L1_CACHE_CAPACITY_GB: 'much' },
      /is much: wanted a number/,
    ],
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L1_CACHE_EVICTION_POLICY: 'FIFO' },
      /^AIBRIX_KV_CACHE_OL_L1_CACHE_EVICTION_POLICY is fifo: wanted one of s3fifo/,
    ],
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND: 'ROCKSDB', AIBRIX_KV_CACHE_OL_ROCKSDB_TTL_S: 'long' },
      /^AIBRIX_KV_CACHE_OL_ROCKSDB_TTL_S is long: wanted a number of seconds/,
    ],
    [
      'AIBrixPDReuseConnector',
      { AIBRIX_KV_CACHE_OL_L2_CACHE_BACKEND: 'ROCKSDB', AIBRIX_KV_CACHE_OL_L2_CACHE_INGESTION_TYPE: 'NEW' },
      /^AIBRIX_KV_CACHE_OL_L2_CACHE_INGESTION_TYPE is NEW: wanted one of ALL/,
    ],
    [
      'LMCacheConnectorV1',
      { LMCACHE_SAVE_DECODE_CACHE: 'maybe' },
      /^LMCACHE_SAVE_DECODE_CACHE is maybe: wanted/,
    ],
    ['LMCacheConnectorV1', { LMCACHE_CACHE_POLICY: 'LFU' }, /^LMCACHE_CACHE_POLICY is LFU: wanted LRU/],
    ['LMCacheConnectorV1', { LMCACHE_LOCAL_CPU: 'False' }, /^LMCACHE_LOCAL_CPU is False: wanted true/],
    ['LMCacheConnectorV1', { LMCACHE_CHUNK_SIZE: '64' }, /^LMCACHE_CHUNK_SIZE is 64: wanted 256/],
    [
      'LMCacheConnectorV1',
      { LMCACHE_CONFIG_FILE: 'a.yaml' },
      /^LMCACHE_CONFIG_FILE is a.yaml, but kvferry reads only environment/,
    ],
    [
      'LMCacheConnectorV1',
      { LMCACHE_REMOTE_URL: 'lm://user:secret@x:65432' },
      /is lm:\/\/x:65432, which begins with lm:.* wanted redis:/,
    ],
  ])('are refused if %s has %j', (name, env, message) => {
    expect(() => config(name, env)).toThrow(message);
  });
});
