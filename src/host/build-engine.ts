/**
 * Builds the lasting parts of an engine: device, weights, paged KV, runner, transport. The policy on top of them can
 * be rebuilt (build-policy.ts).
 */

import type { KvCacheSpec } from '../config/engine.ts';
import type { EngineCoreDeps } from '../engine/engine-core.ts';
import type { Clock } from '../engine/types.ts';
import { isLavapipe } from '../gpu/adapter-name.ts';
import type { GpuDevice } from '../gpu/device.ts';
import type { GpuKvMemory } from '../gpu/kv-memory.ts';
import type { SpanSink } from '../measure/spans/spans.ts';
import { type KvGroups, kvGroups } from '../model/architecture/kv-groups.ts';
import { countParameters } from '../model/architecture/presets.ts';
import { putOnDevice } from '../model/on-device.ts';
import type { ModelRunner } from '../model/runner.ts';
import type { Architecture } from '../model/types.ts';
import { weightsOf } from '../model/weights/load-weights.ts';
import { SharedWeights } from '../model/weights/shared-weights.ts';
import type { Platform } from '../platform/types.ts';
import { sum } from '../sum.ts';
import {
  BLOCK_LAYOUT_VERSION,
  CONNECTOR_VERSION,
  type CompatibilityFactors,
  compatibilityHash,
} from '../transport/compatibility.ts';
import { flipOneBit, withFault } from '../transport/faults.ts';
import { warmUpClaims } from '../transport/prefix-claim.ts';
import { createTransport, type PeerTransport } from '../transport/transport.ts';
import type { EngineStart, EngineStarted } from './engine-api.ts';

export interface EngineParts {
  gpu: GpuDevice;
  kv: GpuKvMemory;
  runner: ModelRunner;
  transport: PeerTransport;
  eosTokenIds: readonly number[];
  vocabSize: number;
  /** What each of the model's KV cache groups keeps. */
  groups: readonly KvCacheSpec[];
  coreDeps: Omit<EngineCoreDeps, 'config' | 'connector'>;
  started: EngineStarted;
}

/** Throws AdapterError, ModelError or ConfigError, after destroying the device. */
export async function buildEngine(
  platform: Platform,
  clock: Clock,
  start: EngineStart,
  onSpan: SpanSink,
): Promise<EngineParts> {
  const { core } = start;
  const { blockSize, numBlocks, kvDtype } = core.cache;
  const files = await platform.openModel(start.model.name);
  const own = await weightsOf({
    name: start.model.name,
    files,
    checkpoint: start.checkpoint,
    dtype: start.model.weightDtype,
    seed: start.model.weightSeed,
  });
  const weights = start.sharedWeights ? new SharedWeights(own, start.sharedWeights) : own;
  const { architecture } = weights;
  const groups = kvGroups(architecture);
  const { gpu, kv, runner } = await putOnDevice(platform, weights, {
    ...{ numBlocks, kvDtype, groups, layout: start.layout, keepLogits: start.keepLogits },
    kernels: start.kernels,
    compileOrder: start.compileOrder,
    gemm: start.gemm,
    arithmetic: start.arithmetic,
    driverThreads: start.driverThreads,
    limits: { ...core.scheduler, blockSize },
    clock,
    onSpan,
    engineId: core.engineId,
  });
  try {
    // Runs while the device computes.
    const claims = core.connector ? clock.sleep(0).then(warmUpClaims) : null;
    const [{ weightsMs, compileMs, pipelines }] = await Promise.all([runner.warmUp(), claims]);
    const transport = transportOf(start, kv, hashFactors(start, architecture, groups), clock, onSpan);
    return {
      gpu,
      kv,
      runner,
      transport,
      eosTokenIds: architecture.eosTokenIds,
      vocabSize: architecture.vocabSize,
      groups: groups.groups.map(({ spec }) => (start.fault === 'short-window' ? shorter(spec) : spec)),
      coreDeps: {
        executor: runner,
        clock,
        onNewBlocks: (group, ids) => (start.poison ? kv.poison(group, ids) : kv.clear(ids)),
      },
      started: {
        adapter: gpu.report,
        memory: memoryOf(runner, gpu, transport),
        blockBytes: kv.pageBytes,
        identity: transport.identity,
        parameters: countParameters(architecture),
        loadMs: weightsMs,
        compileMs,
        pipelines,
        // Lavapipe is the only driver whose threads can be set.
        driverThreads: start.driverThreads !== false || !isLavapipe(gpu.report),
      },
    };
  } catch (error) {
    gpu.destroy();
    throw error;
  }
}

function transportOf(
  start: EngineStart,
  kv: GpuKvMemory,
  factors: CompatibilityFactors,
  clock: Clock,
  onSpan: SpanSink,
): PeerTransport {
  const { engineId, host, port, cache, connector } = start.core;
  const { fault } = start;
  const tokenBytes = factors.headDim * (cache.kvDtype === 'f16' ? 2 : 4);
  return createTransport({
    identity: {
      engineId,
      host,
      port,
      compatibilityHash: compatibilityHash(factors),
      blockSize: cache.blockSize,
      blockBytes: kv.blockBytes,
    },
    factors,
    memory: fault && fault !== 'flip-bit' && fault !== 'short-window' ? withFault(kv, fault, tokenBytes) : kv,
    ...(fault === 'flip-bit' ? { beforeChunkPosted: flipOneBit() } : {}),
    clock,
    link: start.link,
    checksum: start.checksum,
    silenceMs: start.silenceMs,
    enforceHandshakeCompat: connector?.nixl.enforceHandshakeCompat ?? true,
    onSpan,
  });
}

/** `other`: what the runner does not count, such as the kernels' parameters. It is small. */
function memoryOf(runner: ModelRunner, gpu: GpuDevice, transport: PeerTransport): Record<string, number> {
  const budget = runner.memoryBudget();
  const counted = sum(Object.values(budget));
  return { ...budget, other: gpu.bufferBytes - counted, shared: transport.slabBytes };
}

const shorter = (spec: KvCacheSpec): KvCacheSpec =>
  spec.kind === 'full' ? spec : { ...spec, window: spec.window - 1 };

/** What must be equal at both ends for a block to mean the same. */
function hashFactors(
  start: EngineStart,
  architecture: Architecture,
  { groups }: KvGroups,
): CompatibilityFactors {
  return {
    model: `${architecture.name}@${start.model.weightSeed}`,
    weightDtype: start.model.weightDtype,
    kvDtype: start.core.cache.kvDtype,
    arithmetic: start.arithmetic,
    numLayers: architecture.numLayers,
    numKvHeads: architecture.numKvHeads,
    headDim: architecture.headDim,
    layout: start.layout,
    groups: groups
      .map(({ spec, layers }) => `${spec.kind === 'full' ? 'full' : spec.window}: ${layers}`)
      .join('; '),
    blockLayoutVersion: BLOCK_LAYOUT_VERSION,
    connectorVersion: CONNECTOR_VERSION,
  };
}
