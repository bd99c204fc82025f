/**
 * Runs scheduled batches on the device: uploads a piece's inputs, submits its kernels in parts of about maxSubmitMs, one
 * in flight, and reads back what was sampled. It decides nothing about requests, and allocates no block.
 */
import type { ModelExecutor, SampledToken, ScheduledBatch } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import type { Work } from './forward-pass.ts';
import { type KernelTimes, KernelTiming, type TimingMode } from './kernel-timing.ts';
import { tellPiece } from './piece-spans.ts';
import { uploadPiece } from './piece-upload.ts';
import { createRunnerParts, type ModelRunnerOptions, type RunnerParts } from './runner-parts.ts';
import { SampleReadback } from './sample-readback.ts';
import { cutIntoPieces, type Piece, type PieceLimits, type PieceShape } from './step-inputs.ts';
import { warmUpPieces } from './warm-up.ts';
import { type EstimatedWork, WorkEstimate } from './work-estimate.ts';

/** Bytes on the device. */
export type MemoryBudget = Record<'weights' | 'kv' | 'activations' | 'staging', number>;

/** Milliseconds, side by side: weights onto the device, and pipelines made and dispatched for the first time. */
export interface WarmedUp {
  weightsMs: number;
  compileMs: number;
  pipelines: number;
}

/** Pieces of so few rows, decode steps, are one submit whatever the estimate says. */
const ONE_SUBMIT_ROWS = 16;

export class ModelRunner implements ModelExecutor {
  readonly #parts: RunnerParts;
  readonly #gpu: GpuDevice;
  readonly #estimate = new WorkEstimate();
  readonly #readback: SampleReadback;
  readonly #shape: PieceShape;
  #busy = false;
  /** null unless someone wants the device's times. */
  #timing: KernelTiming | null = null;
  /** What must not happen while a batch runs. */
  #afterStep: () => void = () => {};
  /** When the device had done the last piece that sampled. */
  #computedMs = 0;

  private constructor(parts: RunnerParts) {
    const { options, activations } = parts;
    const { architecture } = options.weights;
    this.#parts = parts;
    this.#gpu = options.gpu;
    this.#shape = {
      blockSize: options.limits.blockSize,
      numBlocks: options.kv.numBlocks[0]!,
      vocabSize: architecture.vocabSize,
      maxModelLen: options.limits.maxModelLen,
    };
    this.#readback = new SampleReadback(options.gpu, activations, architecture.vocabSize, options.keepLogits);
  }

  /** Uploads the weights and makes every pipeline. Throws AdapterError or ConfigError. */
  static async create(options: ModelRunnerOptions): Promise<ModelRunner> {
    return new ModelRunner(await createRunnerParts(options));
  }

  /**
   * Runs pieces of several sizes, with a readback, so that nothing is done for the first time later; measures each kernel
   * to estimate submits. Writes into the null block only.
   */
  async warmUp(): Promise<WarmedUp> {
    const { library, pass, options, weightsMs, compileMs } = this.#parts;
    const pieces = warmUpPieces(this.#parts, options.limits);
    // Once unmeasured: memory that is touched for the first time would look like slow kernels.
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      await this.#runLast(pass.firstLayer(piece), piece);
    }
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      for (const work of pass.firstLayer(piece)) {
        const start = options.clock.now();
        await this.#gpu.run([this.#encode([work])]);
        this.#estimate.calibrate({ key: work.kernel, work: work.work }, options.clock.now() - start);
      }
    }
    library.endWarmUp();
    return { weightsMs, compileMs, pipelines: library.count };
  }

  /** Pipelines that were dispatched for the first time after the warm-up: must be 0. */
  firstUseCompilations(): number {
    return this.#parts.library.firstUseCompilations();
  }

  /** Times submits or kernels by the device's clock from the next step on; null stops. False: it has no such clock. */
  setTiming(mode: TimingMode | null): boolean {
    const { gpu, clock, engineId = 'engine', onSpan = () => {}, weights, kvDtype } = this.#parts.options;
    const shapes = {
      architecture: weights.architecture,
      weightBytes: weights.dtype === 'f16' ? 2 : 4,
      kvBytes: kvDtype === 'f16' ? 2 : 4,
    };
    const timing = mode && KernelTiming.create({ gpu, mode, shapes, clock, engineId, onSpan });
    const change = (): void => {
      this.#timing?.destroy();
      this.#timing = timing;
    };
    if (this.#busy) this.#afterStep = change;
    else change();
    return mode === null || timing !== null;
  }

  /** Since the last time, or since setTiming. */
  takeKernelTimes(): KernelTimes {
    return this.#timing?.take() ?? { totals: [], smallestStepNs: null };
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
      let begunMs = this.#parts.options.clock.now();
      for (const piece of cutIntoPieces(batch, this.#shape, this.#pieceLimits())) {
        sampled.push(...(await this.#runPiece(piece, batch.step, begunMs)));
        begunMs = this.#parts.options.clock.now();
      }
      return sampled;
    } finally {
      this.#busy = false;
      this.#afterStep();
      this.#afterStep = () => {};
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
    this.#timing?.destroy();
    weights.destroy();
    activations.destroy();
    pass.destroy();
    this.#readback.destroy();
  }

  async #runPiece(piece: Piece, step: number, begunMs: number): Promise<SampledToken[]> {
    const { pass } = this.#parts;
    uploadPiece(this.#parts, piece);
    const all = pass.dispatches(piece);
    const submits = piece.numRows <= ONE_SUBMIT_ROWS ? [all] : this.#cut(all);
    const last = submits.pop()!;
    for (const part of submits) await this.#timed(part, (ms) => this.#submit(part, piece, ms));
    let sampled: SampledToken[] = [];
    await this.#timed(last, async (ms) => {
      if (piece.samples.length === 0) await this.#submit(last, piece, ms);
      else sampled = await this.#runLast(last, piece, ms);
    });
    const { onSpan, engineId = 'engine', clock } = this.#parts.options;
    const computedMs = piece.samples.length === 0 ? clock.now() : this.#computedMs;
    const timed = { begunMs, computedMs, endMs: clock.now(), submits: submits.length + 1 };
    if (onSpan) tellPiece(onSpan, engineId, piece, step, timed, this.#timing !== null);
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

  /** Runs a part of a piece, told how long it may take, and learns from how long it took. */
  async #timed(part: readonly Work[], run: (expectedMs: number) => Promise<void>): Promise<void> {
    const { clock } = this.#parts.options;
    const works = part.map(estimated);
    // A peer's copy may be ahead in the queue: its time is not this part's.
    await this.#gpu.idle();
    const start = clock.now();
    await run(works.reduce((ms, work) => ms + this.#estimate.milliseconds(work), 0));
    this.#estimate.learn(works, clock.now() - start);
  }

  async #submit(
    part: readonly Work[],
    piece: Piece,
    expectedMs: number,
    readback?: (encoder: GPUCommandEncoder) => void,
  ): Promise<void> {
    const timing = this.#timing;
    const submittedMs = timing ? this.#parts.options.clock.now() : 0;
    await this.#gpu.run([this.#encode(part, readback)], expectedMs);
    if (timing) await timing.collect(part, piece, submittedMs);
  }

  #encode(part: readonly Work[], readback?: (encoder: GPUCommandEncoder) => void): GPUCommandBuffer {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'forward' });
    const { library } = this.#parts;
    if (this.#timing) this.#timing.encode(encoder, part, (pass, work) => library.encode(pass, work));
    else {
      const pass = encoder.beginComputePass({ label: 'forward' });
      for (const work of part) library.encode(pass, work);
      pass.end();
    }
    readback?.(encoder);
    return encoder.finish();
  }

  /** Submits the last part of a piece that samples, with the copy of its results, and reads them. */
  async #runLast(part: readonly Work[], piece: Piece, expectedMs = 0): Promise<SampledToken[]> {
    return this.#readback.read(piece, async (copy) => {
      await this.#submit(part, piece, expectedMs, copy);
      this.#computedMs = this.#parts.options.clock.now();
    });
  }
}

const estimated = ({ kernel, work }: Work): EstimatedWork => ({ key: kernel, work });
