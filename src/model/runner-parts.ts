/** Creates what a runner needs on the device for its limits: weights, activations and pipelines. Executes no batch. */
import type { Clock } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { submitFirstDispatches } from '../gpu/first-dispatch.ts';
import { KernelLibrary, type ReadShader } from '../gpu/kernels.ts';
import type { GpuKvMemory } from '../gpu/kv-memory.ts';
import type { SpanSink } from '../measure/spans/spans.ts';
import { type KvGroups, kvPageBytes, oneGroup } from './architecture/kv-groups.ts';
import { widestWindow } from './architecture/layer-attention.ts';
import { mostAttentionParts } from './kernels/attention-variants.ts';
import type { GemmChoice } from './kernels/gemm-forms.ts';
import { type AdapterForm, adapterForm } from './kernels/kernel-variants.ts';
import { LaterKernels } from './kernels/later-kernels.ts';
import { createPassKernels, type KernelSet, kernelsOf, type PassKernels } from './kernels/pass-kernels.ts';
import { type Activations, createActivations } from './pass/activations.ts';
import { createForwardPass, type ForwardPass } from './pass/forward-pass.ts';
import { FORBIDDEN_PER_ROW } from './pass/sampling.ts';
import { type Architecture, type ModelWeights, pad4 } from './types.ts';
import { type DeviceWeights, uploadWeights } from './weights/device-weights.ts';
import { PIECE_BYTES } from './weights/weight-sizes.ts';

export interface RunnerLimits {
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
  blockSize: number;
}

export interface ModelRunnerOptions {
  gpu: GpuDevice;
  readShader: ReadShader;
  weights: ModelWeights;
  kv: GpuKvMemory;
  /** Which layers share blocks; absent: all layers are one group. */
  groups?: KvGroups;
  limits: RunnerLimits;
  kvDtype: 'f16' | 'f32';
  /** Whether to read back the logits of every sampled row. */
  keepLogits: boolean;
  /** Target duration of a submit, so that READs by peers wait no longer. */
  maxSubmitMs: number;
  clock: Clock;
  /** Forms of the matrix kernel; null or absent: the adapter's defaults. */
  gemm?: GemmChoice | null;
  /** Whether kernels for few rows include the steps before and after them; absent: true. */
  fuse?: boolean;
  /** Most bytes of a piece of the embedding, for tests; absent: PIECE_BYTES, which every device can bind. */
  pieceBytes?: number;
  /** Kernels created before the engine serves; absent: all. */
  kernels?: KernelSet;
  /** See LaterKernels; absent: null. */
  openCompiler?: (() => Promise<GpuDevice>) | null;
  /** Order in which pipelines are created. Two engines that start together use opposite orders. */
  compileOrder?: 'forwards' | 'backwards';
  /** Steps of the weights' upload, done and in all: one per layer plus one for the rest. */
  onProgress?: (done: number, total: number) => void;
  onSpan?: SpanSink;
  /** Names the lanes of spans. */
  engineId?: string;
}

/** Most rows of one pass through the layers; more rows take several passes. */
const MAX_PIECE_ROWS = 1024;
const MAX_LOGIT_ROWS = 64;

/** Limited by what one buffer may hold, for very large vocabularies. */
const mostLogitRows = ({ vocabSize }: Architecture): number =>
  Math.max(1, Math.min(MAX_LOGIT_ROWS, Math.floor(PIECE_BYTES / (4 * pad4(vocabSize)))));

export interface RunnerParts {
  options: ModelRunnerOptions;
  groups: KvGroups;
  library: KernelLibrary;
  later: LaterKernels;
  weights: DeviceWeights;
  activations: Activations;
  pass: ForwardPass;
  pieceRows: number;
  logitRows: number;
  /**
   * Milliseconds of two concurrent phases: loading the weights, and creating the pipelines with their first dispatches.
   */
  weightsMs: number;
  compileMs: number;
}

/**
 * Uploads the weights and creates the first kernels at the same time. The model's shape must have passed
 * checkKernelsServe. Throws AdapterError if something does not fit, and InternalError if a kernel does not compile.
 */
export async function createRunnerParts(options: ModelRunnerOptions): Promise<RunnerParts> {
  const { gpu, weights, kv, limits } = options;
  const { architecture } = weights;
  const groups = options.groups ?? oneGroup(architecture);
  const blockBytes = kvPageBytes(groups, architecture, limits.blockSize, options.kvDtype);
  invariant(
    kv.blockBytes.length === groups.groups.length &&
      kv.pageBytes === blockBytes &&
      kv.kvDtype === options.kvDtype,
    () => 'the KV memory does not match the model',
  );
  invariant(
    limits.maxNumSeqs > 0 && limits.maxNumBatchedTokens > 0,
    () => 'a step must have room for a request',
  );
  const library = new KernelLibrary(gpu, options.readShader);
  const form = adapterForm(gpu.report);
  const begun = options.clock.now();
  let weightsMs = 0;
  const compiling = compileKernels(options, library, form);
  const loading = uploadWeights(gpu, weights, options.onProgress ?? (() => {}), options.pieceBytes).finally(
    () => {
      weightsMs = options.clock.now() - begun;
    },
  );
  // Wait for both: the caller destroys the device on failure, and nothing may still be pending then.
  await Promise.allSettled([loading, compiling]);
  const [deviceWeights, kernels] = await Promise.all([loading, compiling]);
  await gpu.run([]);
  const compileMs = options.clock.now() - begun;
  const pieceRows = Math.min(limits.maxNumBatchedTokens, MAX_PIECE_ROWS);
  const logitRows = Math.min(limits.maxNumSeqs, pieceRows, mostLogitRows(architecture));
  const requests = Math.min(limits.maxNumSeqs, pieceRows);
  const activations = createActivations(gpu, architecture, {
    rows: pieceRows,
    logitRows,
    groups: groups.groups.length,
    tableEntries: requests * Math.ceil(limits.maxModelLen / limits.blockSize),
    tiles: pieceRows * Math.ceil(architecture.numHeads / architecture.numKvHeads) + requests,
    forbidden: logitRows * FORBIDDEN_PER_ROW,
    maxModelLen: limits.maxModelLen,
    attentionParts: mostAttentionParts(kernels.attention, architecture.numHeads, {
      rows: requests,
      maxModelLen: limits.maxModelLen,
      window: widestWindow(architecture),
    }),
  });
  const { openCompiler = null, readShader } = options;
  const later = new LaterKernels({ gpu, library, readShader, openCompiler });
  const pass = createForwardPass({
    gpu,
    library,
    form,
    architecture,
    weights: deviceWeights,
    kernels,
    activations,
    kv,
    groups,
    // The kernels for prompts serve their last few rows nearly as well, so nothing more is requested.
    want: options.kernels === 'prompts' ? () => {} : (kernel) => later.want(kernel),
  });
  return {
    options,
    groups,
    library,
    later,
    weights: deviceWeights,
    activations,
    pass,
    pieceRows,
    logitRows,
    weightsMs,
    compileMs,
  };
}

/**
 * Creates the kernels and submits their first dispatches. If the driver caches compiled kernels on disk, two engines
 * that use opposite orders compile half of the shared ones each. An engine's own kernels come first.
 */
async function compileKernels(
  options: ModelRunnerOptions,
  library: KernelLibrary,
  form: AdapterForm,
): Promise<PassKernels> {
  const { gpu, weights, kv, limits, gemm = null, fuse = true, compileOrder = 'forwards' } = options;
  const kernels = createPassKernels(library, form, {
    architecture: weights.architecture,
    blockSize: limits.blockSize,
    maxModelLen: limits.maxModelLen,
    weightsF32: weights.dtype === 'f32',
    kvF32: kv.kvDtype === 'f32',
    gemm,
    fuse,
  });
  const { own, shared } = kernelsOf(options.kernels ?? 'all', kernels);
  const inOrder = [own, shared].flatMap((some) => (compileOrder === 'forwards' ? some : some.toReversed()));
  await Promise.all(inOrder.map((kernel) => library.make(kernel)));
  submitFirstDispatches(gpu, library, inOrder);
  return kernels;
}
