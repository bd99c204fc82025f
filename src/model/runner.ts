/**
 * Runs scheduled batches on the device: uploads a piece's inputs, submits its kernels in parts of about maxSubmitMs, one
 * in flight, and reads back what was sampled. It decides nothing about requests, and allocates no block.
 */
import type { ModelExecutor, SampledRow, ScheduledBatch } from '../engine/types.ts';
import { invariant } from '../errors.ts';
import type { GpuDevice } from '../gpu/device.ts';
import type { TimingMode } from '../measure/profile.ts';
import { type KernelTimes, KernelTiming } from './kernel-timing.ts';
import { groupWindows } from './kv-groups.ts';
import { tellPiece } from './piece-spans.ts';
import { uploadPiece } from './piece-upload.ts';
import { createRunnerParts, type ModelRunnerOptions, type RunnerParts } from './runner-parts.ts';
import { SampleReadback } from './sample-readback.ts';
import type { Work } from './stage.ts';
import { cutIntoPieces, type Piece, type PieceShape } from './step-inputs.ts';
import { SubmitSizes } from './submit-sizes.ts';
import { warmUpPieces } from './warm-up.ts';

/** Bytes on the device. */
export type MemoryBudget = Record<'weights' | 'kv' | 'activations' | 'staging', number>;

/** Milliseconds, side by side: weights onto the device, and pipelines made and dispatched for the first time. */
export interface WarmedUp {
  weightsMs: number;
  compileMs: number;
  pipelines: number;
}

/** Decode steps of so few rows are one submit whatever the estimate says. */
const ONE_SUBMIT_ROWS = 16;

export class ModelRunner implements ModelExecutor {
  readonly #parts: RunnerParts;
  readonly #gpu: GpuDevice;
  readonly #sizes: SubmitSizes;
  readonly #readback: SampleReadback;
  readonly #shape: PieceShape;
  #busy = false;
  /** A decode step's commands, encoded while the device computed a step: the next is likely to be the same. */
  #ahead: { part: readonly Work[]; commands: GPUCommandBuffer } | null = null;
  /** null unless someone wants the device's times. */
  #timing: KernelTiming | null = null;
  /** What takes #timing's place when the batch has run; null: nothing does. */
  #nextTiming: { timing: KernelTiming | null } | null = null;

  private constructor(parts: RunnerParts) {
    const { options, activations } = parts;
    const { architecture } = options.weights;
    this.#parts = parts;
    this.#gpu = options.gpu;
    this.#sizes = new SubmitSizes(parts);
    this.#shape = {
      blockSize: options.limits.blockSize,
      numBlocks: options.kv.numBlocks[0]!,
      vocabSize: architecture.vocabSize,
      maxModelLen: options.limits.maxModelLen,
      windows: groupWindows(parts.groups, architecture),
    };
    this.#readback = new SampleReadback(options.gpu, activations, architecture.vocabSize, options.keepLogits);
  }

  /** Uploads the weights and makes the kernels that it begins with. Throws ModelError for a shape that no kernel serves. */
  static async create(options: ModelRunnerOptions): Promise<ModelRunner> {
    return new ModelRunner(await createRunnerParts(options));
  }

  /**
   * Runs pieces of several sizes, with a readback, so that nothing is done for the first time later; measures each kernel
   * to estimate submits. Writes into the null block only.
   */
  async warmUp(): Promise<WarmedUp> {
    const { library, pass, options, weightsMs, compileMs } = this.#parts;
    const pieces = warmUpPieces(this.#parts, options.limits, options.kernels ?? 'all');
    // Once unmeasured: memory that is touched for the first time would look like slow kernels.
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      await this.#readback.read(piece, async (copy, done) => {
        await this.#gpu.run([this.#encode(pass.firstLayer(piece)), this.#encodeCopy(copy)], done);
      });
    }
    for (const piece of pieces) {
      uploadPiece(this.#parts, piece);
      for (const work of pass.firstLayer(piece)) {
        await this.#sizes.calibrate(work, async () => {
          const start = options.clock.now();
          await this.#gpu.run([this.#encode([work])]);
          return options.clock.now() - start;
        });
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
      vocabularyPieces: this.#parts.weights.embedding.length,
    };
    const timing = mode && KernelTiming.create({ gpu, mode, shapes, clock, engineId, onSpan });
    this.#nextTiming?.timing?.destroy();
    this.#nextTiming = { timing };
    if (!this.#busy) this.#changeTiming();
    return mode === null || timing !== null;
  }

  /** Since the last time, or since setTiming. */
  takeKernelTimes(): KernelTimes {
    return this.#timing?.take() ?? { totals: [], smallestStepNs: null };
  }

  /** Throws EngineDeadError when the device is lost meanwhile. */
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

  /** The weights, activations and staging buffers; the KV memory and the device belong to others. */
  destroy(): void {
    const { weights, activations, pass, later } = this.#parts;
    later.close();
    this.#timing?.destroy();
    this.#nextTiming?.timing?.destroy();
    weights.destroy();
    activations.destroy();
    pass.destroy();
    this.#readback.destroy();
  }

  /** Resolves when no kernel is being made any more. */
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
    if (onSpan) tellPiece(onSpan, engineId, piece, step, timed, this.#timing !== null);
    return sampled;
  }

  /** Runs a part of a piece, and learns from how long it took: with a peer's copies that were ahead in the queue, so that it is corrected later. */
  async #submit(part: readonly Work[], piece: Piece, last: LastPart = {}): Promise<void> {
    const { clock } = this.#parts.options;
    const commands = [this.#takeEncoded(part) ?? this.#encode(part)];
    if (last.copy) commands.push(this.#encodeCopy(last.copy));
    const start = clock.now();
    const running = this.#gpu.run(commands, last.done);
    if (isSmallDecode(piece) && !this.#timing) this.#ahead = { part, commands: this.#encode(part) };
    await running;
    this.#sizes.learn(part, clock.now() - start);
    await this.#timing?.collect(part, piece, start);
  }

  /** What was encoded ahead, if it is what this part would be. */
  #takeEncoded(part: readonly Work[]): GPUCommandBuffer | null {
    const ahead = this.#ahead;
    this.#ahead = null;
    return ahead && !this.#timing && sameDispatches(ahead.part, part) ? ahead.commands : null;
  }

  #encode(part: readonly Work[]): GPUCommandBuffer {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'forward' });
    const { library } = this.#parts;
    if (this.#timing) this.#timing.encode(encoder, part, (pass, work) => library.encode(pass, work));
    else {
      const pass = encoder.beginComputePass({ label: 'forward' });
      for (const work of part) library.encode(pass, work);
      pass.end();
    }
    return encoder.finish();
  }

  #encodeCopy(copy: (encoder: GPUCommandEncoder) => void): GPUCommandBuffer {
    const encoder = this.#gpu.device.createCommandEncoder({ label: 'sampled' });
    copy(encoder);
    return encoder.finish();
  }

  /** Submits the last part of a piece, and reads what the piece samples. computedMs: when the device had done it. */
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
    this.#timing?.destroy();
    this.#timing = this.#nextTiming.timing;
    this.#nextTiming = null;
  }
}

/** What the last part of a piece that samples also does, and how it is known to be done. */
type LastPart = { copy?: (encoder: GPUCommandEncoder) => void; done?: () => Promise<unknown> };

const sameDispatches = (a: readonly Work[], b: readonly Work[]): boolean =>
  a.length === b.length &&
  a.every(({ kernel, bindGroup, x, y, z }, i) => {
    const other = b[i]!;
    return (
      kernel === other.kernel &&
      bindGroup === other.bindGroup &&
      x === other.x &&
      y === other.y &&
      z === other.z
    );
  });

const isSmallDecode = ({ numRows, spans }: Piece): boolean =>
  numRows <= ONE_SUBMIT_ROWS && spans.every(({ rows }) => rows === 1);
