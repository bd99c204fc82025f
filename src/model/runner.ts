/**
 * Runs scheduled batches on the device: uploads a piece's inputs, submits its kernels in parts of about maxSubmitMs, one
 * in flight, and reads back what was sampled. It decides nothing about requests, and allocates no block.
 */
import type { Clock, ModelExecutor, SampledToken, ScheduledBatch } from '../engine/types.ts';
import { ConfigError, invariant, RequestError } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { KernelLibrary } from '../gpu/kernels.ts';
import type { GpuKvMemory } from '../gpu/kv-memory.ts';
import { StagingRing } from '../gpu/staging.ts';
import type { SpanSink } from '../measure/spans.ts';
import { type Activations, createActivations } from './activations.ts';
import { type DeviceWeights, uploadWeights } from './device-weights.ts';
import { createForwardPass, type ForwardPass, type Work } from './forward-pass.ts';
import { adapterForm } from './kernel-variants.ts';
import { packSamples } from './sampling.ts';
import {
  attentionTiles,
  cutIntoPieces,
  type Piece,
  type PieceLimits,
  type PieceShape,
} from './step-inputs.ts';
import { kvBlockBytes, type ModelWeights, pad4 } from './types.ts';
import { warmUpPieces } from './warm-up.ts';
import { type EstimatedWork, WorkEstimate } from './work-estimate.ts';

export interface RunnerLimits {
  maxNumBatchedTokens: number;
  maxNumSeqs: number;
  /** Longest sequence, prompt and output together. */
  maxModelLen: number;
  blockSize: number;
}

export interface ModelRunnerOptions {
  gpu: GpuDevice;
  readShader: (name: string) => Promise<string>;
  weights: ModelWeights;
  kv: GpuKvMemory;
  limits: RunnerLimits;
  kvDtype: 'f16' | 'f32';
  /** Read the logits of every sampled row back. */
  keepLogits: boolean;
  /** A submit's length is aimed at this, so that reads by peers wait no longer. */
  maxSubmitMs: number;
  clock: Clock;
  /** Weights uploaded, of all: layers and one for the rest. */
  onProgress?: (done: number, total: number) => void;
  onSpan?: SpanSink;
}

/** Bytes on the device. */
export type MemoryBudget = Record<'weights' | 'kv' | 'activations' | 'staging', number>;

/** Rows of one pass through the layers at most; more rows take several passes. */
const MAX_PIECE_ROWS = 1024;
const MAX_LOGIT_ROWS = 64;
/** Pieces of so few rows, decode steps, are one submit whatever the estimate says. */
const ONE_SUBMIT_ROWS = 16;
/** Forbidden token ids of a piece, by row that gets logits. */
const FORBIDDEN_PER_ROW = 64;
const READBACK_PLACES = 2;

interface RunnerParts {
  options: ModelRunnerOptions;
  library: KernelLibrary;
  weights: DeviceWeights;
  activations: Activations;
  pass: ForwardPass;
  pieceRows: number;
  logitRows: number;
}

export class ModelRunner implements ModelExecutor {
  readonly #parts: RunnerParts;
  readonly #gpu: GpuDevice;
  readonly #estimate = new WorkEstimate();
  readonly #readback: StagingRing;
  readonly #shape: PieceShape;
  readonly #vocabSize: number;
  #busy = false;

  private constructor(parts: RunnerParts) {
    const { options, logitRows } = parts;
    const { architecture } = options.weights;
    this.#parts = parts;
    this.#gpu = options.gpu;
    this.#vocabSize = architecture.vocabSize;
    this.#shape = {
      blockSize: options.limits.blockSize,
      numBlocks: options.kv.numBlocks[0]!,
      vocabSize: architecture.vocabSize,
      maxModelLen: options.limits.maxModelLen,
    };
    this.#readback = new StagingRing(options.gpu, {
      label: 'sampled',
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
      places: READBACK_PLACES,
      bufferBytes: logitRows * 16,
    });
  }

  /** Uploads the weights and makes every pipeline. Throws AdapterError or ConfigError. */
  static async create(options: ModelRunnerOptions): Promise<ModelRunner> {
    const { gpu, weights, kv, limits } = options;
    const { architecture } = weights;
    const blockBytes = kvBlockBytes(architecture, limits.blockSize, options.kvDtype);
    invariant(
      kv.blockBytes[0] === blockBytes && kv.kvDtype === options.kvDtype,
      () => 'the KV memory is of another model',
    );
    checkArchitecture(options);
    const deviceWeights = await uploadWeights(gpu, weights, options.onProgress ?? (() => {}));
    const pieceRows = Math.min(limits.maxNumBatchedTokens, MAX_PIECE_ROWS);
    const logitRows = Math.min(limits.maxNumSeqs, pieceRows, MAX_LOGIT_ROWS);
    const requests = Math.min(limits.maxNumSeqs, pieceRows);
    const activations = createActivations(gpu, architecture, {
      rows: pieceRows,
      logitRows,
      tableEntries: requests * Math.ceil(limits.maxModelLen / limits.blockSize),
      tiles: pieceRows * Math.ceil(architecture.numHeads / architecture.numKvHeads) + requests,
      forbidden: logitRows * FORBIDDEN_PER_ROW,
      maxModelLen: limits.maxModelLen,
    });
    const library = new KernelLibrary(gpu, options.readShader);
    const pass = await createForwardPass({
      gpu,
      library,
      form: adapterForm(gpu.report.subgroupSize, gpu.report.software),
      architecture,
      weights: deviceWeights,
      weightsF32: weights.dtype === 'f32',
      activations,
      kv,
      blockSize: limits.blockSize,
    });
    return new ModelRunner({
      options,
      library,
      weights: deviceWeights,
      activations,
      pass,
      pieceRows,
      logitRows,
    });
  }

  /**
   * Dispatches every pipeline, with a readback, so that nothing compiles later; measures each to estimate submits.
   * Writes into the null block only. compileMs is the time of the first dispatches.
   */
  async warmUp(): Promise<{ compileMs: number; pipelines: number }> {
    const { library, pass, options } = this.#parts;
    const begun = options.clock.now();
    const pieces = warmUpPieces(this.#parts, options.limits);
    for (const piece of pieces) {
      this.#upload(piece);
      const readback = await this.#submitLast(pass.firstLayer(piece), piece);
      await this.#collect(piece, readback);
    }
    const compileMs = options.clock.now() - begun;
    for (const piece of pieces) {
      this.#upload(piece);
      for (const work of pass.firstLayer(piece)) {
        const start = options.clock.now();
        await this.#gpu.run([this.#encode([work])]);
        this.#estimate.calibrate({ key: work.kernel, work: work.work }, options.clock.now() - start);
      }
    }
    library.endWarmUp();
    return { compileMs, pipelines: library.count };
  }

  /** Pipelines that were dispatched for the first time after the warm-up: must be 0. */
  firstUseCompilations(): number {
    return this.#parts.library.firstUseCompilations();
  }

  /** Throws EngineDeadError when the device is lost meanwhile. */
  async execute(batch: ScheduledBatch): Promise<SampledToken[]> {
    invariant(!this.#busy, () => 'execute was called while a batch was running');
    const { limits } = this.#parts.options;
    const rows = batch.requests.reduce((sum, request) => sum + request.tokenIds.length, 0);
    invariant(
      rows <= limits.maxNumBatchedTokens,
      () => `${rows} rows in a step of ${limits.maxNumBatchedTokens}`,
    );
    invariant(
      batch.requests.length <= limits.maxNumSeqs,
      () => `${batch.requests.length} requests in a step`,
    );
    this.#busy = true;
    try {
      const sampled: SampledToken[] = [];
      for (const piece of cutIntoPieces(batch, this.#shape, this.#pieceLimits())) {
        sampled.push(...(await this.#runPiece(piece, batch.step)));
      }
      return sampled;
    } finally {
      this.#busy = false;
    }
  }

  memoryBudget(): MemoryBudget {
    const { weights, activations, options } = this.#parts;
    return {
      weights: weights.bytes,
      kv: options.kv.buffer.size,
      activations: activations.bytes(),
      staging: options.kv.stagingBytes + this.#readback.bytes,
    };
  }

  /** The weights, activations and staging buffers; the KV memory and the device belong to others. */
  destroy(): void {
    const { weights, activations, pass } = this.#parts;
    weights.destroy();
    activations.destroy();
    pass.destroy();
    this.#readback.destroy();
  }

  async #runPiece(piece: Piece, step: number): Promise<SampledToken[]> {
    const { options, pass } = this.#parts;
    const begun = options.clock.now();
    this.#upload(piece);
    const all = pass.dispatches(piece);
    const submits = piece.numRows <= ONE_SUBMIT_ROWS ? [all] : this.#cut(all);
    const last = submits.pop()!;
    for (const part of submits) await this.#timed(part, () => this.#gpu.run([this.#encode(part)]));
    let sampled: SampledToken[] = [];
    await this.#timed(last, async () => {
      if (piece.samples.length === 0) await this.#gpu.run([this.#encode(last)]);
      else sampled = await this.#collect(piece, await this.#submitLast(last, piece));
    });
    options.onSpan?.({
      name: 'forward',
      lane: 'gpu',
      startMs: begun,
      endMs: options.clock.now(),
      clock: 'host',
      requestId: null,
      args: { step, rows: piece.numRows, submits: submits.length + 1 },
    });
    return sampled;
  }

  /** As much as one dispatch of a layer's largest kernel may take. */
  #pieceLimits(): PieceLimits {
    const { pass, pieceRows, logitRows, options } = this.#parts;
    const gemmMs = pass.rowWork * this.#estimate.rate(pass.gemmKernel(pieceRows));
    const pairMs = pass.pairWork * this.#estimate.rate(pass.attentionKernel);
    const rows = Math.floor(options.maxSubmitMs / gemmMs / ONE_SUBMIT_ROWS) * ONE_SUBMIT_ROWS;
    return {
      rows: Math.min(Math.max(rows, ONE_SUBMIT_ROWS), pieceRows),
      attendedKeys: Math.max(options.maxSubmitMs / pairMs, 1),
      logitRows,
    };
  }

  /** Consecutive dispatches of about maxSubmitMs each. */
  #cut(all: readonly Work[]): Work[][] {
    const parts: Work[][] = [];
    let open: Work[] = [];
    let ms = 0;
    for (const work of all) {
      const more = this.#estimate.milliseconds(estimated(work));
      if (open.length > 0 && ms + more > this.#parts.options.maxSubmitMs) {
        parts.push(open);
        open = [];
        ms = 0;
      }
      open.push(work);
      ms += more;
    }
    parts.push(open);
    return parts;
  }

  async #timed(part: readonly Work[], run: () => Promise<void>): Promise<void> {
    const { clock } = this.#parts.options;
    // A peer's copy may be ahead in the queue: its time is not this part's.
    await this.#gpu.idle();
    const start = clock.now();
    await run();
    this.#estimate.learn(part.map(estimated), clock.now() - start);
  }

  #upload(piece: Piece): void {
    const { activations, pass, options } = this.#parts;
    const { queue } = options.gpu.device;
    this.#gpu.assertAlive();
    const group = options.weights.architecture.numHeads / options.weights.architecture.numKvHeads;
    queue.writeBuffer(pass.stepUniform, 0, Uint32Array.of(piece.numRows, piece.logitRows.length));
    queue.writeBuffer(activations.tokens, 0, piece.tokens);
    queue.writeBuffer(activations.tables, 0, piece.tables);
    queue.writeBuffer(activations.tiles, 0, attentionTiles(piece, group, pass.tileRows(piece)));
    if (piece.samples.length === 0) return;
    const { rows, forbidden } = packSamples(piece.samples.map(({ sample }) => sample));
    if (forbidden.byteLength > activations.forbidden.size) {
      throw new RequestError(
        `${forbidden.length} end and stop tokens are forbidden at once, and at most ${activations.forbidden.size / 4} can be: ` +
          'give fewer stop tokens, or no minimum of tokens',
      );
    }
    queue.writeBuffer(activations.logitRows, 0, piece.logitRows);
    queue.writeBuffer(activations.sampleRows, 0, rows);
    if (forbidden.length > 0) queue.writeBuffer(activations.forbidden, 0, forbidden);
  }

  #encode(part: readonly Work[], readback?: (encoder: GPUCommandEncoder) => void): GPUCommandBuffer {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'forward' });
    const pass = encoder.beginComputePass({ label: 'forward' });
    for (const work of part) this.#parts.library.encode(pass, work);
    pass.end();
    readback?.(encoder);
    return encoder.finish();
  }

  /** Submits the last part of a piece that samples, with the copy of its results. */
  async #submitLast(part: readonly Work[], piece: Piece): Promise<GPUBuffer> {
    const { activations, options } = this.#parts;
    const count = piece.samples.length;
    const logitBytes = options.keepLogits ? 4 * pad4(this.#vocabSize) * count : 0;
    const staging = await this.#readback.acquire(16 * count + logitBytes);
    try {
      const commands = this.#encode(part, (encoder) => {
        encoder.copyBufferToBuffer(activations.results, 0, staging, 0, 16 * count);
        if (logitBytes > 0)
          encoder.copyBufferToBuffer(activations.logits, 0, staging, 16 * count, logitBytes);
      });
      await this.#gpu.run([commands]);
      await this.#gpu.guard(staging.mapAsync(GPUMapMode.READ));
      return staging;
    } catch (error) {
      this.#readback.release(staging);
      throw error;
    }
  }

  /** Reads the mapped results and gives their buffer back. */
  async #collect(piece: Piece, staging: GPUBuffer): Promise<SampledToken[]> {
    const count = piece.samples.length;
    const stride = pad4(this.#vocabSize);
    const words = new Uint32Array(staging.getMappedRange(), 0, 4 * count);
    const sampled = piece.samples.map(({ requestId }, i) => {
      const [tokenId, low, high] = [words[4 * i]!, words[4 * i + 1]!, words[4 * i + 2]!];
      const at = words.byteOffset + 16 * count + 4 * stride * i;
      const logits = this.#parts.options.keepLogits
        ? new Float32Array(words.buffer, at, this.#vocabSize).slice()
        : null;
      return { requestId, tokenId, logitsDigest: hex(high) + hex(low), logits };
    });
    staging.unmap();
    this.#readback.release(staging);
    return sampled;
  }
}

const hex = (word: number): string => word.toString(16).padStart(8, '0');

const estimated = ({ kernel, work }: Work): EstimatedWork => ({ key: kernel, work });

function checkArchitecture({ weights, limits }: ModelRunnerOptions): void {
  const { name, headDim, numHeads, numKvHeads } = weights.architecture;
  const heads = numHeads / numKvHeads;
  if (headDim % 8 !== 0 || headDim > 128 || !Number.isInteger(heads)) {
    throw new ConfigError(
      `${name} has ${numHeads} query heads, ${numKvHeads} KV heads and head_dim ${headDim}: wanted a multiple of the KV ` +
        'heads, and a head_dim that is a multiple of 8 and at most 128',
    );
  }
  invariant(
    limits.maxNumSeqs > 0 && limits.maxNumBatchedTokens > 0,
    () => 'a step must have room for a request',
  );
}
