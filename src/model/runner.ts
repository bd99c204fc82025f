/**
 * Executes scheduled batches on the device. It uploads a piece's inputs, submits its kernels in parts of about
 * maxSubmitMs with one part in flight, and reads back sampled tokens. It makes no scheduling decisions and allocates no
 * blocks.
 */
import type { ModelExecutor, SampledRow, ScheduledBatch } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import { timeSubmit } from '../gpu/timing.ts';
import type { TimingMode } from '../measure/spans/profile.ts';
import { groupWindows } from './architecture/kv-groups.ts';
import { type KernelTimes, KernelTiming } from './pass/kernel-timing.ts';
import { emitPieceSpan } from './pass/piece-spans.ts';
import { uploadPiece } from './pass/piece-upload.ts';
import { SampleReadback } from './pass/sample-readback.ts';
import type { Work } from './pass/stage.ts';
import { type EncodeCopy, StepCommands } from './pass/step-commands.ts';
import { cutIntoPieces, type Piece, type PieceShape } from './pass/step-inputs.ts';
import { createRunnerParts, type ModelRunnerOptions, type RunnerParts } from './runner-parts.ts';
import { SubmitSizes } from './submit-sizes.ts';
import { warmUpPiece, warmUpPieces } from './warm-up.ts';

/** Bytes on the device. */
export type MemoryBudget = Record<'weights' | 'kv' | 'activations' | 'staging', number>;

/**
 * Milliseconds of two concurrent phases: uploading the weights, and creating the pipelines with their first dispatches.
 */
export interface WarmedUp {
  weightsMs: number;
  compileMs: number;
  pipelines: number;
}

/** Decode steps with at most this many rows are one part, regardless of the estimate. */
const ONE_PART_ROWS = 16;

export class ModelRunner implements ModelExecutor {
  readonly #parts: RunnerParts;
  readonly #gpu: GpuDevice;
  readonly #sizes: SubmitSizes;
  readonly #commands: StepCommands;
  readonly #readback: SampleReadback;
  readonly #shape: PieceShape;
  #busy = false;
  /** Replaces the commands' timing after the current batch; null: no change. */
  #nextTiming: { timing: KernelTiming | null } | null = null;

  private constructor(parts: RunnerParts) {
    const { options, activations } = parts;
    const { architecture } = options.weights;
    this.#parts = parts;
    this.#gpu = options.gpu;
    this.#sizes = new SubmitSizes(parts);
    this.#commands = new StepCommands(options.gpu, parts.library);
    this.#shape = {
      blockSize: options.limits.blockSize,
      numBlocks: options.kv.numBlocks[0]!,
      vocabSize: architecture.vocabSize,
      maxModelLen: options.limits.maxModelLen,
      windows: groupWindows(parts.groups, architecture),
    };
    this.#readback = new SampleReadback(options.gpu, activations, architecture.vocabSize, options.keepLogits);
  }

  /**
   * Uploads the weights and creates the kernels needed first. The model's shape must have passed checkKernelsServe.
   * Throws AdapterError if something does not fit, and InternalError if a kernel does not compile.
   */
  static async create(options: ModelRunnerOptions): Promise<ModelRunner> {
    return new ModelRunner(await createRunnerParts(options));
  }

  /**
   * Runs pieces of several sizes, with a readback, so that nothing happens for the first time while serving. Also
   * measures each kernel, to estimate submits. Writes into the null block only.
   */
  async warmUp(): Promise<WarmedUp> {
    const { library, options, weightsMs, compileMs } = this.#parts;
    const { limits, kernels = 'all' } = options;
    await this.#measureKernels(warmUpPieces(this.#parts, limits, kernels));
    // A GPU's form for many rows serves only matrices that occupy it. Otherwise it would be first used, and its speed only
    // guessed, in a user's first long prompt.
    if (kernels !== 'one row' && !this.#gpu.report.software)
      await this.#measureKernels([warmUpPiece(this.#parts, limits, this.#sizes.pieceLimits().rows)]);
    library.endWarmUp();
    return { weightsMs, compileMs, pipelines: library.count };
  }

  async #measureKernels(pieces: readonly Piece[]): Promise<void> {
    const { library, pass, options } = this.#parts;
    const commands = this.#commands;
    // First without measuring: the first touch of memory would make kernels look slow.
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      await this.#readback.read(piece, async (copy, done) => {
        await this.#gpu.run(
          [[commands.encodeWhole(pass.firstLayer(piece)), commands.encodeCopy(copy)]],
          done,
        );
      });
    }
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      for (const work of pass.firstLayer(piece)) {
        await this.#sizes.calibrate(work, (times) =>
          timeSubmit(this.#gpu, library, [work], times, options.clock),
        );
      }
    }
  }

  /** Pipelines first dispatched after the warm-up. Must be 0. */
  firstUseCompilations(): number {
    return this.#parts.library.firstUseCompilations();
  }

  /**
   * Times submits or kernels by the device's clock from the next step on; null stops it. Returns false if the device
   * has no timestamps.
   */
  setTiming(mode: TimingMode | null): boolean {
    const { gpu, clock, engineId = 'engine', onSpan = () => {}, weights, kvDtype } = this.#parts.options;
    const shapes = {
      architecture: weights.architecture,
      weightBytes: weights.dtype === 'f16' ? 2 : 4,
      kvBytes: kvDtype === 'f16' ? 2 : 4,
      vocabularyPieces: this.#parts.weights.embedding.length,
    };
    const timing = mode && KernelTiming.create({ gpu, mode, shapes, clock, engineId, onSpan });
    this.#nextTiming?.timing?.destroy();
    this.#nextTiming = { timing };
    if (!this.#busy) this.#changeTiming();
    return mode === null || timing !== null;
  }

  /** Times since the last call, or since setTiming. */
  takeKernelTimes(): KernelTimes {
    return this.#commands.timing?.take() ?? { totals: [], smallestStepNs: null };
  }

  /** Throws EngineDeadError if the device is lost. */
  async execute(batch: ScheduledBatch): Promise<SampledRow[]> {
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
      const sampled: SampledRow[] = [];
      let begunMs = this.#parts.options.clock.now();
      for (const piece of cutIntoPieces(batch, this.#shape, this.#sizes.pieceLimits())) {
        sampled.push(...(await this.#runPiece(piece, batch.step, begunMs)));
        begunMs = this.#parts.options.clock.now();
      }
      return sampled;
    } finally {
      this.#busy = false;
      this.#changeTiming();
      this.#parts.later.begin();
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

  /** Destroys the weights, activations and staging buffers. The KV memory and the device have other owners. */
  destroy(): void {
    const { weights, activations, pass, later } = this.#parts;
    later.close();
    this.#commands.timing = null;
    this.#nextTiming?.timing?.destroy();
    weights.destroy();
    activations.destroy();
    pass.destroy();
    this.#readback.destroy();
  }

  /** Resolves when no kernel is being created. */
  kernelsSettled(): Promise<void> {
    return this.#parts.later.settled();
  }

  async #runPiece(piece: Piece, step: number, begunMs: number): Promise<SampledRow[]> {
    const { pass } = this.#parts;
    uploadPiece(this.#parts, piece);
    const all = pass.dispatches(piece);
    const submits = isSmallDecode(piece) ? [all] : this.#sizes.cut(all);
    const last = submits.pop()!;
    for (const part of submits) await this.#submit(part, piece);
    const { sampled, computedMs } = await this.#runLast(last, piece);
    const { onSpan, engineId = 'engine', clock } = this.#parts.options;
    const timed = { begunMs, computedMs, endMs: clock.now(), submits: submits.length + 1 };
    if (onSpan) emitPieceSpan(onSpan, engineId, piece, step, timed, this.#commands.timing !== null);
    return sampled;
  }

  /**
   * Runs a part of a piece, and learns from its duration. Copies for peers ahead in the queue add to that duration;
   * later submits correct the estimate.
   */
  async #submit(part: readonly Work[], piece: Piece, last: LastPart = {}): Promise<void> {
    const { clock } = this.#parts.options;
    const commands = this.#commands;
    const start = clock.now();
    const running = this.#gpu.run(commands.submits(part, last.copy), last.done);
    if (isSmallDecode(piece)) commands.encodeAhead(part);
    await running;
    this.#sizes.learn(part, clock.now() - start);
    await commands.timing?.collect(part, piece, { submittedMs: start, passes: commands.passes });
  }

  /**
   * Submits the last part of a piece, and reads what the piece samples. computedMs: host time at which the device
   * finished it.
   */
  async #runLast(
    part: readonly Work[],
    piece: Piece,
  ): Promise<{ sampled: SampledRow[]; computedMs: number }> {
    const { clock } = this.#parts.options;
    let computedMs = 0;
    const submit = async (last?: LastPart) => {
      await this.#submit(part, piece, last);
      computedMs = clock.now();
    };
    if (piece.samples.length > 0) {
      const sampled = await this.#readback.read(piece, (copy, done) => submit({ copy, done }));
      return { sampled, computedMs };
    }
    await submit();
    return { sampled: [], computedMs };
  }

  #changeTiming(): void {
    if (!this.#nextTiming) return;
    this.#commands.timing = this.#nextTiming.timing;
    this.#nextTiming = null;
  }
}

/** What the last part also does if the piece samples: the copy of its results, and how completion is detected. */
type LastPart = { copy?: EncodeCopy; done?: () => Promise<unknown> };

const isSmallDecode = ({ numRows, spans }: Piece): boolean =>
  numRows <= ONE_PART_ROWS && spans.every(({ rows }) => rows === 1);
