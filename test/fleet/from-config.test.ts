/** Every setting of the engines, the fleet, the store and routing arrives in what a cluster is made from. */
import { describe, expect, test } from 'vitest';
import { type FieldGroup, fieldMeta, parseRunConfig, type RunKey, runKeys } from '../../src/config/run.ts';
import { clusterOptions } from '../../src/fleet/from-config.ts';
import { presetArchitecture } from '../../src/model/architecture/presets.ts';

const GROUPS: ReadonlySet<FieldGroup> = new Set<FieldGroup>([
  'machine',
  'fleet',
  'cluster',
  'store',
  'routing',
]);

/** Another value for each setting. */
// biome-ignore format: a table
const OTHER: Partial<Record<RunKey, unknown>> = {
  model: 'tiny', autotune: 'on', decodeDriverThreads: 'on', kvDtype: 'f32', weightDtype: 'f32', arithmetic: 'f16', seed: 1,
  prefill: 2, decode: 2, modeOfFleet: 'replica',
  fleet: { rolesets: [{ name: 'a', prefill: [{}], decode: [{}, {}] }] },
  threshold: 0, blockSize: 32, layout: 'layer-pieces', pBlocks: 99, dBlocks: 99, allFullKv: true, ttl: 9, lease: 9, link: '10gbe',
  handover: 'streamed', prefixCaching: false, tokenCheck: false, loadFailurePolicy: 'recompute', maxNumBatchedTokens: 300,
  maxNumSeqs: 9, maxModelLen: 300,
  kvTransferConfig: { kv_connector: 'NixlConnector', kv_connector_extra_config: { bidirectional_kv_xfer: true } },
  store: '1MiB', storeEviction: 'lru', storePlace: 'remote', storeDir: '/tmp/kv', storeUrl: 'redis://127.0.0.1:6379',
  storeDirSize: '1MiB', storeTtl: 9, storeWrite: 'EVICTED', storePrefetch: 'best_effort', offloadPromptOnly: false,
  routing: ['random'], routingConfig: { seed: 9 }, signalAge: 9,
};

/** Settings without effect unless others are given. */
const NEEDS: Partial<Record<RunKey, object>> = {
  storeEviction: { store: '1MiB' },
  storePlace: { store: '1MiB' },
  storeDirSize: { storeDir: '/tmp/kv' },
  storeTtl: { storeDir: '/tmp/kv' },
  storeWrite: { storeDir: '/tmp/kv' },
  storePrefetch: { storeDir: '/tmp/kv' },
  routingConfig: { routing: ['random'] },
};

/** Chosen, or read, before there is a cluster. */
const ELSEWHERE: ReadonlySet<RunKey> = new Set<RunKey>(['adapter', 'routingModule']);

const optionsOf = (settings: object) => {
  const config = parseRunConfig({ mode: ['bidirectional'], ...settings });
  return clusterOptions(config, presetArchitecture(config.model === 'recall' ? 'nano' : config.model), true);
};

describe('what a cluster is made from', () => {
  const settings = runKeys.filter((key) => GROUPS.has(fieldMeta(key).group) && !ELSEWHERE.has(key));

  test.each(settings)('depends on %s', (key) => {
    expect(OTHER, `give ${key} another value here`).toHaveProperty(key);
    const needed = NEEDS[key] ?? {};
    expect(optionsOf({ ...needed, [key]: OTHER[key] })).not.toEqual(optionsOf(needed));
  });
});

// Blocks of 16 tokens. The rules are those of docs/store.md.
const usual = { blocksPerChunk: 1, minLoadTokens: 0, saves: 'blocks', handsOver: true };
const aibrixModules = 'aibrix_kvcache.integration.vllm.kv_connector.aibrix_offloading_connector_';
test.each([
  ['OffloadingConnector', usual],
  ['AIBrixOffloadingConnector', { ...usual, minLoadTokens: 128, saves: 'whole' }],
  ['AIBrixOffloadingConnector', { ...usual, minLoadTokens: 128, saves: 'whole' }, `${aibrixModules}type1`],
  ['AIBrixOffloadingConnector', { ...usual, minLoadTokens: 128 }, `${aibrixModules}type2`],
  ['AIBrixOffloadingConnectorV1Type1', { ...usual, minLoadTokens: 128, saves: 'whole' }],
  ['AIBrixOffloadingConnectorV1Type2', { ...usual, minLoadTokens: 128 }],
  ['AIBrixOffloadingConnectorV1Type3', { ...usual, minLoadTokens: 128 }],
  ['AIBrixPDReuseConnector', usual],
  ['LMCacheConnectorV1', { ...usual, blocksPerChunk: 16 }],
  ['LMCacheConnectorV1Dynamic', { ...usual, blocksPerChunk: 16 }],
])("%s loads and saves in its system's units", (kv_connector, expected, module?: string) => {
  const single = { kv_connector, kv_connector_module_path: module };
  const settings = { store: '1MiB', blockSize: 16, kvTransferConfig: single };
  expect(optionsOf(settings).connector.offloading).toMatchObject(expected);
  const connectors = [{ kv_connector: 'NixlConnector' }, single];
  const multi = { kv_connector: 'MultiConnector', kv_connector_extra_config: { connectors } };
  const within = optionsOf({ ...settings, kvTransferConfig: multi }).connector.offloading;
  expect(within).toMatchObject({ ...expected, handsOver: false });
});
