/** A model runner with its KV memory, and helpers that make requests for it. */
import type { Arithmetic } from '../../src/config/arithmetic.ts';
import { DEFAULT_SAMPLING } from '../../src/engine/sampling.ts';
import type { ScheduledRequest } from '../../src/engine/types.ts';
import type { GpuDevice } from '../../src/gpu/device.ts';
import { GpuKvMemory } from '../../src/gpu/kv-memory.ts';
import { ModelRunner } from '../../src/model/runner.ts';
import type { ModelRunnerOptions } from '../../src/model/runner-parts.ts';
import { type Architecture, kvBlockBytes, type ModelWeights } from '../../src/model/types.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openTestDevice, readShader } from '../gpu/adapter.ts';

export const greedy = { ...DEFAULT_SAMPLING, maxTokens: 100, ignoreEos: true };

export interface Harness {
  kv: GpuKvMemory;
  runner: ModelRunner;
  architecture: Architecture;
  blockSize: number;
  close(): void;
}

export async function createHarness(
  weights: ModelWeights,
  options: {
    kvDtype?: 'f16' | 'f32';
    blockSize?: number;
    numBlocks?: number;
    maxNumBatchedTokens?: number;
    maxModelLen?: number;
    warm?: boolean;
    /** Default: f32. */
    arithmetic?: Arithmetic;
    /** Use a separate device, which `close` destroys. By default all harnesses of a file share one and its pipelines. */
    ownDevice?: boolean;
  } & Partial<ModelRunnerOptions> = {},
): Promise<Harness> {
  const {
    kvDtype = 'f16',
    blockSize = 16,
    numBlocks = 64,
    maxNumBatchedTokens = 512,
    maxModelLen = 512,
    warm = true,
    arithmetic = 'f32',
    ownDevice = false,
  } = options;
  const { architecture } = weights;
  const blockBytes = kvBlockBytes(architecture, blockSize, kvDtype);
  const gpu = await (ownDevice ? openDevice(arithmetic) : sharedDevice(arithmetic));
  const kv = new GpuKvMemory({ gpu, numBlocks, blockBytes, kvDtype, clock: systemClock });
  const runner = await ModelRunner.create({
    gpu,
    readShader,
    weights,
    kv,
    limits: { maxNumBatchedTokens, maxNumSeqs: 16, maxModelLen, blockSize },
    kvDtype,
    keepLogits: true,
    maxSubmitMs: 30,
    clock: systemClock,
    ...options,
  });
  if (warm) await runner.warmUp();
  kv.poison(
    0,
    Array.from({ length: numBlocks - 1 }, (_, i) => i + 1),
  );
  return {
    kv,
    runner,
    architecture,
    blockSize,
    close: () => {
      runner.destroy();
      kv.destroy();
      if (ownDevice) gpu.destroy();
    },
  };
}

const MOST_BUFFER_BYTES = 256 << 20;

async function openDevice(arithmetic: Arithmetic): Promise<GpuDevice> {
  const gpu = await openTestDevice(MOST_BUFFER_BYTES, true, arithmetic);
  fillWithNaN(gpu);
  return gpu;
}

const shared = new Map<Arithmetic, Promise<GpuDevice>>();

/** Software adapters take about a second to compile a kernel; Dawn reuses a pipeline while a reference to it exists. */
function sharedDevice(arithmetic: Arithmetic): Promise<GpuDevice> {
  const known = shared.get(arithmetic);
  if (known) return known;
  const opened = openDevice(arithmetic).then((gpu) => {
    holdPipelines(gpu);
    return gpu;
  });
  shared.set(arithmetic, opened);
  return opened;
}

function holdPipelines({ device }: GpuDevice): void {
  const held: GPUComputePipeline[] = [];
  const create = device.createComputePipelineAsync.bind(device);
  device.createComputePipelineAsync = async (descriptor) => {
    const pipeline = await create(descriptor);
    held.push(pipeline);
    return pipeline;
  };
}

/** Fills every new storage buffer with NaN, so that reads of unwritten memory show up in results. */
function fillWithNaN({ device }: GpuDevice): void {
  const create = device.createBuffer.bind(device);
  device.createBuffer = (descriptor) => {
    if (descriptor.mappedAtCreation || !(descriptor.usage & GPUBufferUsage.STORAGE))
      return create(descriptor);
    const buffer = create({ ...descriptor, usage: descriptor.usage | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(buffer, 0, new Uint32Array(buffer.size / 4).fill(0xffffffff));
    return buffer;
  };
}

/** A request for tokens [start, end) of a sequence, sampled after the last. */
export function request(
  requestId: string,
  tokenIds: readonly number[],
  start: number,
  end: number,
  blockIds: readonly number[],
  sample: ScheduledRequest['sample'] = { params: greedy, outputIndex: 0, forbiddenTokenIds: [] },
): ScheduledRequest {
  return {
    requestId,
    tokenIds: tokenIds.slice(start, end),
    startPosition: start,
    blockIds: [blockIds],
    sample,
  };
}

/** Deterministic token ids. */
export function tokens(count: number, vocab: number, seed = 1): number[] {
  let state = seed * 2654435761;
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * vocab);
  });
}

export function maxDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const difference = Math.abs(a[i]! - b[i]!);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}
