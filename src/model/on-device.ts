/**
 * Sets up a model on its own device: the device, its paged KV memory, and the runner. Weights and warm-up follow later.
 */

import type { Arithmetic } from '../config/arithmetic.ts';
import type { Clock } from '../engine/types.ts';
import { isLavapipe } from '../gpu/adapter-name.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { GpuKvMemory } from '../gpu/kv-memory.ts';
import type { SpanSink } from '../measure/spans/spans.ts';
import type { Platform } from '../platform/types.ts';
import { type KvGroups, kvGroupBytes, kvPageBytes, oneGroup } from './architecture/kv-groups.ts';
import type { GemmChoice } from './kernels/gemm-forms.ts';
import { checkKernelsServe } from './kernels/kernel-variants.ts';
import type { KernelSet } from './kernels/pass-kernels.ts';
import { openDevice } from './open-device.ts';
import { ModelRunner } from './runner.ts';
import type { RunnerLimits } from './runner-parts.ts';
import type { ModelWeights } from './types.ts';
import { checkLargestWeight } from './weights/weight-sizes.ts';

export interface OnDeviceOptions {
  limits: RunnerLimits;
  /** Blocks in the pool, including the null block. */
  numBlocks: number;
  kvDtype: 'f16' | 'f32';
  layout: 'contiguous' | 'layer-pieces';
  /** Which layers share blocks; absent: all layers are one group. */
  groups?: KvGroups;
  /** Whether to read back the logits of every sampled row. */
  keepLogits: boolean;
  /** Kernels created before the engine serves; absent: all. */
  kernels?: KernelSet;
  /** Order in which pipelines are created. Two engines that start together use opposite orders. */
  compileOrder?: 'forwards' | 'backwards';
  /** Forms of the matrix kernel; null or absent: the adapter's defaults. */
  gemm?: GemmChoice | null;
  /** Arithmetic of matrix products; absent: f32. */
  arithmetic?: Arithmetic;
  /** Whether kernels for few rows include the steps before and after them; absent: true. */
  fuse?: boolean;
  /** false: use kernels for adapters without a fixed subgroup size. Absent: as the adapter has it. */
  subgroups?: boolean;
  /** Whether the driver may compute with its own threads; null or absent: all engines have the same setting. */
  driverThreads?: boolean | null;
  clock: Clock;
  onSpan?: SpanSink;
  /** Names the lanes of spans. */
  engineId?: string;
}

export interface ModelOnDevice {
  gpu: GpuDevice;
  kv: GpuKvMemory;
  runner: ModelRunner;
  /** Destroys all three. */
  destroy(reason?: string): void;
}

/** Prefill is cut into submits of about this many milliseconds, so that READs by peers run in between. */
const MAX_SUBMIT_MS = 30;

/**
 * Throws ModelError for a shape that no kernel serves, and AdapterError or ConfigError if the adapter is too small,
 * before any weight is on the device. The device is destroyed on failure.
 */
export async function putOnDevice(
  platform: Pick<Platform, 'createGpu' | 'backend' | 'readShader' | 'easePolling' | 'polls'>,
  weights: ModelWeights,
  {
    numBlocks,
    layout,
    subgroups = true,
    arithmetic = 'f32',
    driverThreads = null,
    ...options
  }: OnDeviceOptions,
): Promise<ModelOnDevice> {
  const { architecture, dtype } = weights;
  const { kvDtype, limits, clock } = options;
  checkKernelsServe(architecture);
  const groups = options.groups ?? oneGroup(architecture);
  const blockBytes = kvPageBytes(groups, architecture, limits.blockSize, kvDtype);
  const bufferBytes = numBlocks * blockBytes;
  const instance = await platform.createGpu(
    driverThreads,
    async () => (await weights.makeAhead?.()) ?? false,
  );
  const open = (bufferBytes: number) =>
    openDevice(platform, instance, { bufferBytes, subgroups, arithmetic });
  const gpu = await open(bufferBytes);
  try {
    checkLargestWeight(architecture, dtype, gpu.report);
    const pieces = layout === 'contiguous' ? 1 : groups.layersPerBlock;
    const groupBytes = kvGroupBytes(groups, architecture, limits.blockSize, kvDtype);
    const kv = new GpuKvMemory({ gpu, numBlocks, blockBytes, kvDtype, clock, pieces, groupBytes });
    const { readShader } = platform;
    const runner = await ModelRunner.create({
      ...options,
      groups,
      gpu,
      readShader,
      openCompiler: isLavapipe(gpu.report) ? () => open(0) : null,
      weights,
      kv,
      maxSubmitMs: MAX_SUBMIT_MS,
    });
    const destroy = (reason?: string): void => {
      runner.destroy();
      kv.destroy();
      gpu.destroy(reason);
    };
    return { gpu, kv, runner, destroy };
  } catch (error) {
    gpu.destroy('the model could not be set up');
    throw error;
  }
}
