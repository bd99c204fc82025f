/** Turns the settings of a watched fleet into those of a simulation. */
import { parseRunConfig, type RunConfigInput } from '../../config/run.ts';
import { FULL_GROUP } from '../../engine/kv-cache-spec.ts';
import { ConfigError } from '../../errors.ts';
import { clusterOptions } from '../../fleet/from-config.ts';
import type { ClusterOptions } from '../../fleet/types.ts';
import { kvCacheSpecs, kvGroups, kvPageBytes } from '../../model/architecture/kv-groups.ts';
import { presetArchitecture } from '../../model/architecture/presets.ts';
import { fileBytesOf } from '../../store/block-file.ts';
import { linearCosts } from '../costs/linear.ts';
import { NAMED_COSTS } from '../costs/published.ts';
import { inStepsOf, type SimulationCosts } from '../costs/types.ts';
import { Answers } from '../engines/answers.ts';
import type { SimulationSettings } from '../settings.ts';
import { BLOCK_SIZE, checkRoom, roomOf } from './room.ts';
import { type LiveSettings, type LiveStoreSettings, TOKEN_IDS } from './settings.ts';

/** The model whose KV is simulated; only its size matters. */
const KV_OF = 'llama-3.2-1b';

/** Throws ConfigError. */
function costsOf({ costs, startMs }: Pick<LiveSettings, 'costs' | 'startMs'>): SimulationCosts {
  const known = typeof costs === 'string' ? NAMED_COSTS[costs] : linearCosts(costs);
  if (!known)
    throw new ConfigError(
      `there are no costs '${String(costs)}': wanted one of ${Object.keys(NAMED_COSTS).join(', ')}`,
    );
  return { ...known, startMs };
}

/** The options that real engines would be started with. Throws ConfigError. */
function optionsOf(settings: LiveSettings, costs: SimulationCosts, blockBytes: number): ClusterOptions {
  const { prefill, decode, blocks, mode, routing, seed, load, store } = settings;
  checkRoom(blocks, load);
  const architecture = presetArchitecture(KV_OF);
  const maxModelLen = Math.min(roomOf(blocks), architecture.maxModelLen);
  const config = parseRunConfig({
    ...{ prefill, decode, seed, model: KV_OF, blockSize: BLOCK_SIZE, kvDtype: 'f16' },
    ...{ pBlocks: blocks, dBlocks: blocks, mode: [mode], routing: [routing] },
    ...{ maxModelLen, loadFailurePolicy: 'recompute' },
    ...(store && storeOf(store, blockBytes)),
  });
  return clusterOptions(inStepsOf(costs, config), architecture, false);
}

function storeOf({ blocks, folderBlocks, eviction }: LiveStoreSettings, blockBytes: number): RunConfigInput {
  const folder = { storeDir: 'simulated', storeDirSize: folderBlocks * fileBytesOf(blockBytes) };
  return { store: blocks * blockBytes, storeEviction: eviction, ...(folderBlocks > 0 ? folder : {}) };
}

/** Throws ConfigError. */
export function worldOf(settings: LiveSettings): Omit<SimulationSettings, 'nextTask'> {
  const kv = kvOf(settings);
  const costs = costsOf(settings);
  return {
    options: optionsOf(settings, costs, kv.blockBytes),
    costs,
    answers: new Answers(...TOKEN_IDS),
    ...kv,
    sharing: 'fcfs',
    check: false,
    runs: true,
  };
}

function kvOf({ kvBytesPerToken }: LiveSettings): Pick<SimulationSettings, 'groups' | 'blockBytes'> {
  if (kvBytesPerToken !== null) return { groups: FULL_GROUP, blockBytes: kvBytesPerToken * BLOCK_SIZE };
  const architecture = presetArchitecture(KV_OF);
  return {
    groups: kvCacheSpecs(architecture),
    blockBytes: kvPageBytes(kvGroups(architecture), architecture, BLOCK_SIZE, 'f16'),
  };
}
