/** A model on a device of its own: the device, paged KV memory for it, and the runner. Loads no weights, and warms nothing up. */

import type { Arithmetic } from '../config/arithmetic.ts';
import type { Clock } from '../engine/types.ts';
import { isLavapipe } from '../gpu/adapter-name.ts';
import { GpuDevice } from '../gpu/device.ts';
import { GpuKvMemory } from '../gpu/kv-memory.ts';
import type { SpanSink } from '../measure/spans.ts';
import type { Platform } from '../platform/types.ts';
import type { GemmChoice } from './gemm-forms.ts';
import { checkKernelsServe } from './kernel-variants.ts';
import { type KvGroups, kvGroupBytes, kvPageBytes, oneGroup } from './kv-groups.ts';
import type { KernelSet } from './pass-kernels.ts';
import { ModelRunner } from './runner.ts';
import type { RunnerLimits } from './runner-parts.ts';
import type { ModelWeights } from './types.ts';
import { checkLargestWeight } from './weight-sizes.ts';

export interface OnDeviceOptions {
  limits: RunnerLimits;
  /** In the pool, the null block included. */
  numBlocks: number;
  kvDtype: 'f16' | 'f32';
  layout: 'contiguous' | 'layer-pieces';
  /** Whose layers share blocks; absent: all of them. */
  groups?: KvGroups;
  /** Read the logits of every sampled row back. */
  keepLogits: boolean;
  /** Those that are made before it serves; absent: all. */
  kernels?: KernelSet;
  /** Of the pipelines: engines that start together take one each. */
  compileOrder?: 'forwards' | 'backwards';
  /** Forms of the matrix kernel; null or absent: those that the adapter takes unmeasured. */
  gemm?: GemmChoice | null;
  /** What matrix products are computed in; absent: f32. */
  arithmetic?: Arithmetic;
  /** Kernels of few rows do what comes before and after them; absent: true. */
  fuse?: boolean;
  /** false: kernels as for an adapter whose subgroups have no fixed size; absent: as the adapter has them. */
  subgroups?: boolean;
  /** Whether the driver may compute with threads of its own, where engines differ in that; null or absent: they do not. */
  driverThreads?: boolean | null;
  clock: Clock;
  onSpan?: SpanSink;
  /** For the lanes of spans. */
  engineId?: string;
}

export interface ModelOnDevice {
  gpu: GpuDevice;
  kv: GpuKvMemory;
  runner: ModelRunner;
}

/** Prefill is cut into submits of about so many milliseconds, so that reads by peers come in between. */
const MAX_SUBMIT_MS = 30;

/** Throws ModelError for a shape that no kernel serves, AdapterError or ConfigError, before any weight is loaded where the adapter is too small; the device is destroyed then. */
export async function putOnDevice(
  platform: Pick<Platform, 'createGpu' | 'backend' | 'readShader' | 'easePolling'>,
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
  const instance = await platform.createGpu(driverThreads);
  const open = (bufferBytes: number) =>
    GpuDevice.open(instance, { bufferBytes, subgroups, arithmetic }, platform.backend);
  const gpu = await open(bufferBytes);
  if (gpu.report.software) platform.easePolling();
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
    return { gpu, kv, runner };
  } catch (error) {
    gpu.destroy('the model could not be set up');
    throw error;
  }
}
