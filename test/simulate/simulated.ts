/** Small simulated fleets for tests, without models or KV, and turns served on them. */
import type { Ingestion } from '../../src/config/store.ts';
import { plainFleet } from '../../src/fleet/seats.ts';
import type { ClusterOptions } from '../../src/fleet/types.ts';
import type { GenerateRequest, TurnResult } from '../../src/router/turn-types.ts';
import { SimulatedCluster } from '../../src/simulate/cluster.ts';
import { noCosts } from '../../src/simulate/costs/published.ts';
import type { SimulationCosts } from '../../src/simulate/costs/types.ts';
import { Answers } from '../../src/simulate/engines/answers.ts';
import type { SimulationSettings } from '../../src/simulate/settings.ts';
import { HEAD_BYTES } from '../../src/store/block-file.ts';
import { type Changes, connectorWith } from '../connector/scripted.ts';

const nextTask = (run: () => void): void => void setImmediate(run);

export interface Fleet {
  prefill?: number;
  decode?: number;
  blocks?: number;
  options?: Partial<ClusterOptions>;
  connector?: Changes;
  /** Capacity of a store in blocks; omitted: no store. */
  storeSlots?: number;
  /** A folder below the store; `slots`: its capacity in blocks. */
  folder?: { slots: number; ingestion: Ingestion; ttlMs?: number };
}

/** Bytes of a block. */
export const BLOCK_BYTES = 16_000;

export function fleetOptions({
  prefill = 1,
  decode = 1,
  blocks = 200,
  options,
  connector,
  storeSlots,
  folder,
}: Fleet = {}): ClusterOptions {
  const folderStart = folder && {
    ...{ directory: 'nowhere', bytes: folder.slots * (BLOCK_BYTES + HEAD_BYTES) },
    ...{ ingestion: folder.ingestion, ttlMs: folder.ttlMs ?? null },
  };
  const mode = options?.mode ?? 'bidirectional';
  return {
    model: 'numbers',
    weightSeed: 1,
    weightDtype: 'f32',
    kvDtype: 'f32',
    layout: 'contiguous',
    mode,
    blockSize: 16,
    prefill: { count: prefill, numBlocks: blocks, enablePrefixCaching: true },
    decode: { count: decode, numBlocks: blocks, enablePrefixCaching: true },
    fleet: plainFleet({ prefill, decode }),
    maxNumBatchedTokens: 512,
    maxNumSeqs: 64,
    maxModelLen: 4096,
    connector: connectorWith({ loadFailurePolicy: 'recompute', bidirectional: true, ...connector }),
    handover: 'pull',
    link: null,
    checksum: false,
    keepLogits: false,
    poison: false,
    fault: null,
    ...(storeSlots === undefined
      ? {}
      : {
          store: {
            ...{ bytes: storeSlots * BLOCK_BYTES, eviction: 's3fifo' as const },
            folder: folderStart ?? null,
          },
        }),
    ...options,
  };
}

export function simulated(
  fleet: Fleet = {},
  costs: Partial<SimulationCosts> = {},
  settings: Partial<SimulationSettings> = {},
): SimulatedCluster {
  return new SimulatedCluster({
    options: fleetOptions(fleet),
    costs: { ...noCosts, ...costs },
    answers: new Answers(8, 500),
    groups: [{ kind: 'full' }],
    blockBytes: BLOCK_BYTES,
    sharing: 'fcfs',
    check: true,
    runs: true,
    nextTask,
    ...settings,
  });
}

/** Serves one turn to its end; call inside run(). */
export async function turn(cluster: SimulatedCluster, request: GenerateRequest): Promise<TurnResult> {
  for await (const { final } of cluster.generate(request)) if (final) return final;
  throw new Error('a turn ended without a result');
}

export const greedy = (maxTokens: number) => ({ maxTokens, ignoreEos: true });
