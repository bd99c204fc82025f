import { describe, expect, test } from 'vitest';
import { camel, fieldMeta, kebab, parseRunConfig, reportedSettings, runKeys } from '../../src/config/run.ts';
import { redisUrl } from '../../src/config/store-url.ts';
import { ConfigError } from '../../src/errors.ts';

const message = (input: unknown): string => {
  try {
    parseRunConfig(input);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error('nothing was refused');
};

describe('settings', () => {
  test('have names that convert to option names and back', () => {
    for (const key of runKeys) expect(camel(kebab(key))).toBe(key);
    expect(kebab('maxNumBatchedTokens')).toBe('max-num-batched-tokens');
    expect(kebab('pBlocks')).toBe('p-blocks');
  });

  test('each have a description and a help heading', () => {
    for (const key of runKeys) {
      expect(fieldMeta(key).description.length, key).toBeGreaterThan(10);
      expect(fieldMeta(key).group, key).toBeDefined();
    }
  });

  test("have vLLM's defaults", () => {
    const config = parseRunConfig({ model: 'nano' });
    expect(config).toMatchObject({
      threshold: 64,
      ttl: 480,
      lease: 30,
      blockSize: 16,
      loadFailurePolicy: 'fail',
      prefixCaching: true,
      maxNumBatchedTokens: null,
      maxNumSeqs: 128,
      mode: ['monolithic', 'unidirectional', 'bidirectional'],
      conversation: null,
    });
  });

  test('parse to a frozen configuration that parses to itself', () => {
    for (const input of [
      {},
      { model: 'tiny', turns: 3 },
      { kvTransferConfig: '{"kv_connector":"NixlConnector"}' },
    ]) {
      const config = parseRunConfig(input);
      expect(Object.isFrozen(config)).toBe(true);
      expect(parseRunConfig(JSON.parse(JSON.stringify(config)))).toEqual(config);
    }
  });

  test('may be given as text', () => {
    expect(
      parseRunConfig({
        model: 'nano',
        threshold: '0',
        temperature: '0.5',
        prefixCaching: 'false',
        mode: 'bidirectional,monolithic,bidirectional',
      }),
    ).toMatchObject({
      threshold: 0,
      temperature: 0.5,
      prefixCaching: false,
      mode: ['bidirectional', 'monolithic'],
    });
  });
});

describe('settings that depend on others', () => {
  test('kvTransferConfig sets the settings that it names', () => {
    const kvTransferConfig = {
      kv_connector: 'NixlConnector',
      kv_role: 'kv_both',
      kv_load_failure_policy: 'recompute',
      kv_connector_extra_config: { bidirectional_kv_xfer: 'True', kv_recompute_threshold: 128 },
    };
    const config = parseRunConfig({ model: 'nano', kvTransferConfig: JSON.stringify(kvTransferConfig) });
    expect(config).toMatchObject({
      threshold: 128,
      loadFailurePolicy: 'recompute',
      ttl: 480,
      kvTransferConfig,
    });
    expect(parseRunConfig({ threshold: 128, kvTransferConfig }).threshold).toBe(128);
  });

  test('maxNumSeqs defaults to at most maxNumBatchedTokens', () => {
    expect(parseRunConfig({ maxNumBatchedTokens: 32 }).maxNumSeqs).toBe(32);
    expect(parseRunConfig({ maxNumBatchedTokens: 32, maxNumSeqs: 32 }).maxNumSeqs).toBe(32);
    expect(message({ maxNumBatchedTokens: 32, maxNumSeqs: 33 })).toContain("'maxNumSeqs' is 33");
  });
});

describe('parseRunConfig refuses with one sentence', () => {
  test.each([
    [{ treshold: 5 }, "there is no setting 'treshold': did you mean 'threshold'?"],
    [{ 'block-size': 16 }, "there is no setting 'block-size': did you mean 'blockSize'?"],
    [{ modle: 'nano' }, "there is no setting 'modle': did you mean 'model'?"],
    [{ zzzzzzzz: 5 }, "there is no setting 'zzzzzzzz'; kvferry export config lists them"],
    [
      { threshold: -5 },
      "'threshold' is -5: wanted a whole number of tokens, 0 or more; or leave it out for 64",
    ],
    [
      { threshold: 'many' },
      "'threshold' is 'many': wanted a whole number of tokens, 0 or more; or leave it out for 64",
    ],
    [
      { threshold: 1.5 },
      "'threshold' is 1.5: wanted a whole number of tokens, 0 or more; or leave it out for 64",
    ],
    [{ blockSize: 17 }, "'blockSize' is 17: wanted one of 8, 16, 32, 64, 128 tokens; or leave it out for 16"],
    [
      { pBlocks: 1 },
      "'pBlocks' is 1: wanted a whole number of blocks, 2 or more (one is the null block); or leave it out",
    ],
    [
      { mode: 'bidirectionl' },
      "'mode' is 'bidirectionl': wanted one or more of monolithic, unidirectional, bidirectional, decode-local, separated by commas (did you mean bidirectional?); or leave it out for monolithic, unidirectional, bidirectional",
    ],
    [
      { kvDtype: 'f15' },
      "'kvDtype' is 'f15': wanted one of f16, f32 (did you mean f16?); or leave it out for f16",
    ],
    [{ topP: 0 }, "'topP' is 0: wanted a number above 0, up to 1; or leave it out for 1"],
    [
      { kvTransferConfig: '{' },
      `'kvTransferConfig' is '{': wanted vLLM's JSON object, such as '{"kv_connector":"NixlConnector"}'; or leave it out`,
    ],
    [
      { threshold: 10, kvTransferConfig: { kv_connector_extra_config: { kv_recompute_threshold: 64 } } },
      "'threshold' is 10 and kv_recompute_threshold in 'kvTransferConfig' is 64: give one of them",
    ],
    [
      { conversation: 'a.json', turns: 3 },
      "'conversation' and 'turns' are both given: the second is for generated conversations only; leave one of them out",
    ],
    [[1], 'the configuration is [1]: wanted an object of settings, such as {"threshold": 64}'],
  ])('%j', (input, expected) => {
    expect(message(input)).toBe(expected);
  });

  test('a value that is nested deeper than JSON can be written, or than anybody reads where it can', () => {
    const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    // Node 26 can write it.
    expect(message(deep)).toMatch(
      /^the configuration is (nested very deep|\[{57}\.\.\.): wanted an object of settings/,
    );
  });

  test('an unknown or invalid field of kvTransferConfig, at either depth', () => {
    expect(message({ kvTransferConfig: { kv_conector: 'x' } })).toMatch(
      /unknown field 'kv_conector'.*did you mean kv_connector\?/,
    );
    expect(
      message({ kvTransferConfig: { kv_connector_extra_config: { kv_recompute_treshold: 1 } } }),
    ).toMatch(
      /unknown field 'kv_recompute_treshold' in kv_connector_extra_config.*did you mean kv_recompute_threshold\?/,
    );
    expect(
      message({ kvTransferConfig: { kv_connector_extra_config: { decoder_kv_blocks_ttl: -1 } } }),
    ).toMatch(/decoder_kv_blocks_ttl in 'kvTransferConfig' is -1: /);
    expect(
      message({ kvTransferConfig: { kv_connector_extra_config: { bidirectional_kv_xfer: 'yes' } } }),
    ).toBe(
      "kv_connector_extra_config.bidirectional_kv_xfer in 'kvTransferConfig' is 'yes': wanted true or false",
    );
  });

  test('a kv_recompute_threshold that is not a whole number', () => {
    const within = (kv_recompute_threshold: unknown) => ({
      kvTransferConfig: { kv_connector_extra_config: { kv_recompute_threshold } },
    });
    for (const [value, shown] of [
      [null, 'null'],
      ['', "''"],
      [true, 'true'],
      [1.5, '1.5'],
    ] as const)
      expect(message(within(value))).toBe(
        `kv_connector_extra_config.kv_recompute_threshold in 'kvTransferConfig' is ${shown}: wanted a whole number, 0 or more`,
      );
    expect(parseRunConfig(within('128')).threshold).toBe(128);
  });

  test('an unknown connector, and a connector setting that belongs in the environment', () => {
    expect(message({ kvTransferConfig: { kv_connector: 'SharedStorageConnector' } })).toMatch(
      /^kv_connector in 'kvTransferConfig' is 'SharedStorageConnector': wanted one of NixlConnector, /,
    );
    expect(message({ kvTransferConfig: { kv_connector: 'OfloadingConnector' } })).toMatch(
      / \(did you mean OffloadingConnector\?\)$/,
    );
    const kv_connector_extra_config = { 'lmcache.chunk_size': 64 };
    expect(
      message({ kvTransferConfig: { kv_connector: 'LMCacheConnectorV1', kv_connector_extra_config } }),
    ).toBe(
      "'kvTransferConfig' has an unknown field 'lmcache.chunk_size' in kv_connector_extra_config: wanted one of discard_partial_chunks, lmcache_rpc_port, skip_last_n_tokens, use_native; LMCache's other settings are environment variables here (docs/store.md)",
    );
    const aibrix = { kv_connector: 'AIBrixPDReuseConnector', kv_connector_extra_config };
    expect(message({ kvTransferConfig: aibrix })).toMatch(/environment variables .* takes no fields here$/);
  });
});

describe('connectors with a store in kvTransferConfig', () => {
  const offloading = (extra: object) => ({
    kv_connector: 'OffloadingConnector',
    kv_connector_extra_config: { cpu_bytes_to_use: 1000, ...extra },
  });
  const multi = (...connectors: object[]) => ({
    kv_connector: 'MultiConnector',
    kv_connector_extra_config: { connectors },
  });

  test("cpu_bytes_to_use sets the store's size, and vLLM's defaults apply", () => {
    const { store, storeEviction, offloadPromptOnly } = parseRunConfig({
      kvTransferConfig: multi({ kv_connector: 'NixlConnector' }, offloading({})),
    });
    expect({ store, storeEviction, offloadPromptOnly }).toEqual({
      store: 1000,
      storeEviction: 'lru',
      offloadPromptOnly: true,
    });
  });

  test.each([
    // https://github.com/vllm-project/aibrix, python/aibrix_kvcache/integration/vllm/README.md
    {
      kv_connector: 'AIBrixPDReuseConnector',
      kv_role: 'kv_both',
      kv_connector_module_path: 'aibrix_kvcache.integration.vllm.kv_connector.aibrix_pd_reuse_connector',
    },
    // its documentation, "KV-Centric P/D: Offloading vs PD Reuse"
    { kv_connector: 'AIBrixOffloadingConnector', kv_role: 'kv_both' },
    // https://github.com/LMCache/LMCache, examples/disagg_prefill and docs/source/api_reference
    {
      kv_connector: 'LMCacheConnectorV1',
      kv_role: 'kv_consumer',
      kv_connector_extra_config: {
        discard_partial_chunks: false,
        skip_last_n_tokens: 1,
        lmcache_rpc_port: 'consumer1',
      },
    },
    {
      kv_connector: 'LMCacheConnectorV1Dynamic',
      kv_role: 'kv_both',
      kv_connector_module_path: 'lmcache.integration.vllm.lmcache_connector_v1',
    },
  ])('accepts as it is published: $kv_connector', (kvTransferConfig) => {
    const config = parseRunConfig({ kvTransferConfig, store: 2000 });
    expect(config).toMatchObject({ kvTransferConfig, store: 2000 });
  });

  const tiered = (tier: object, extra: object = {}) =>
    offloading({ spec_name: 'TieringOffloadingSpec', secondary_tiers: [tier], ...extra });

  test("vLLM's tier of type fs is the folder below the store", () => {
    const tier = { type: 'fs', root_dir: '/kv', n_read_threads: 16, locality: 'LOCAL' };
    const kvTransferConfig = tiered(tier);
    const { store, storeDir, storeDirSize } = parseRunConfig({ kvTransferConfig, storeDirSize: '2GiB' });
    expect({ store, storeDir, storeDirSize }).toEqual({
      store: 1000,
      storeDir: '/kv',
      storeDirSize: 2 ** 31,
    });
  });

  test('settings of a NixlConnector within a MultiConnector apply', () => {
    const nixl = { kv_connector: 'NixlConnector', kv_connector_extra_config: { kv_recompute_threshold: 8 } };
    expect(parseRunConfig({ kvTransferConfig: multi(nixl, offloading({})) }).threshold).toBe(8);
  });

  test.each([
    [
      { kvTransferConfig: { kv_connector: 'OffloadingConnector' } },
      /without memory for its store: give cpu_bytes_to_use/,
    ],
    [
      { kvTransferConfig: offloading({ evction_policy: 'lru' }) },
      /'evction_policy'.*did you mean eviction_policy/,
    ],
    [{ kvTransferConfig: offloading({ eviction_policy: 'fifo' }) }, /eviction_policy/],
    [{ kvTransferConfig: tiered({ type: 'obj', bucket: 'b' }) }, /at most one tier, of type fs/],
    [{ kvTransferConfig: tiered({ type: 'fs' }) }, /root_dir.*wanted a folder/],
    [
      { kvTransferConfig: tiered({ type: 'fs', root_dir: 'kv', dir: 'x' }) },
      /'dir' in .*: wanted one of type, root_dir/,
    ],
    [
      { kvTransferConfig: tiered({ type: 'fs', root_dir: 'kv' }, { spec_name: undefined }) },
      /spec_name is not TieringOffloadingSpec/,
    ],
    [
      { kvTransferConfig: tiered({ type: 'fs', root_dir: 'kv' }, { store_threshold: 2 }) },
      /store_threshold is 2 or more, which vLLM refuses/,
    ],
    [
      { kvTransferConfig: tiered({ type: 'fs', root_dir: 'kv' }), storeDir: 'b' },
      /is b and root_dir .* is kv/,
    ],
    [{ kvTransferConfig: offloading({ block_size: 16, blocks_per_chunk: 2 }) }, /give one of them/],
    [{ kvTransferConfig: offloading({}), store: 2000 }, /is 2000 and cpu_bytes_to_use .* is 1000: give one/],
    [
      { kvTransferConfig: multi(offloading({ foo: 1 })) },
      /'foo' in .*wanted one of spec_name, cpu_bytes_to_use/,
    ],
    [
      { kvTransferConfig: multi(offloading({}), offloading({})) },
      /at most one NixlConnector and one connector with a store/,
    ],
    [{ kvTransferConfig: { kv_connector: 'MultiConnector' } }, /wanted a list, such as/],
    [{ store: '64MiX' }, /wanted bytes, such as 64MiB/],
    [{ storeUrl: 'redis//cache' }, /'storeUrl' is not usable: wanted redis:.*\(it is not a URL\)/],
    [{ storeUrl: 'http://cache:6379' }, /\(it begins with http:/],
    [{ storeUrl: 'redis://' }, /\(it names no host\)/],
    [{ storeUrl: 'redis://cache/first' }, /\(it has \/first as its database number\)/],
    [{ storeUrl: 'redis://cache?db=1' }, /\(it has \?db=1 at its end\)/],
    [{ storeUrl: 'redis://u:12/se#c@cache' }, /\(it has … as its database number\)/],
    [{ storeUrl: 'redis://u:%zz@cache' }, /\(it has a % that is not part of an escape\)/],
    [{ storeUrl: 'redis://cache', storeDirSize: '1GB' }, /'storeDirSize' needs a store folder/],
    [{ storeTtl: 60 }, /'storeTtl' needs a store folder or server.*'storeDir' DIR, or 'storeUrl' URL$/],
  ])('%j is refused', (settings, message) => {
    expect(() => parseRunConfig(settings)).toThrow(message);
  });

  test('storeUrl takes a time to live, implies a store of 64 MiB, and is reported without its password', () => {
    const config = parseRunConfig({ storeUrl: 'rediss://me:p@ss@cache:6380/2', storeTtl: 60 });
    expect(config).toMatchObject({ store: 64 * 2 ** 20, storeUrl: 'rediss://me:p@ss@cache:6380/2' });
    expect(reportedSettings(config).storeUrl).toBe('rediss://cache:6380/2');
    expect(redisUrl('valkey://cache')).toBe('redis://cache');
  });

  test.each([
    ['0,0,9000', [0, 0, 9000]],
    ['8100,8100', [8100, 8100]],
    [8100, [8100]],
  ])('--decode-port %j gives each engine its port, also one that repeats', (decodePort, ports) => {
    expect(parseRunConfig({ decodePort }).decodePort).toEqual(ports);
  });

  test.each([
    ['64MiB', 64 * 2 ** 20],
    ['1.5GB', 1.5e9],
    ['4096', 4096],
    [4096, 4096],
  ])('--store %j is %d bytes', (store, bytes) => {
    expect(parseRunConfig({ store }).store).toBe(bytes);
  });
});
