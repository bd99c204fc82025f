/**
 * Times a runner's parts by the device's clock. For a timeline, each portion of a part is one timed pass; for a profile,
 * each kernel has its own, which slows the run. Exists only while one of them is requested.
 */
import type { Clock } from '../../engine/types.ts';
import type { GpuDevice } from '../../gpu/device.ts';
import { ClockAlignment, PassTimer } from '../../gpu/timestamps.ts';
import type { KernelTotals, TimingMode } from '../../measure/spans/profile.ts';
import { onGpu, type SpanSink } from '../../measure/spans/spans.ts';
import { type CostShapes, kernelCost, kernelPlace } from './kernel-costs.ts';
import type { Work } from './stage.ts';
import type { Piece } from './step-inputs.ts';

export interface KernelTimes {
  totals: readonly KernelTotals[];
  /** null: too few distinct times to tell. */
  smallestStepNs: number | null;
}

/**
 * More dispatches than a model of a few hundred layers has. Each takes two queries, and a query set holds at most
 * 4,096.
 */
const MOST_DISPATCHES = 2048;
/** More portions than that many dispatches have. */
const MOST_PORTIONS = 16;

export interface KernelTimingOptions {
  gpu: GpuDevice;
  mode: TimingMode;
  shapes: CostShapes;
  clock: Clock;
  engineId: string;
  onSpan: SpanSink;
}

export class KernelTiming {
  readonly mode: TimingMode;
  readonly #options: KernelTimingOptions;
  readonly #timer: PassTimer;
  readonly #alignment = new ClockAlignment();
  readonly #totals = new Map<string, KernelTotals>();

  private constructor(options: KernelTimingOptions, timer: PassTimer) {
    this.mode = options.mode;
    this.#options = options;
    this.#timer = timer;
  }

  /** null if the device has no timestamp-query. */
  static create(options: KernelTimingOptions): KernelTiming | null {
    const timer = PassTimer.create(options.gpu, options.mode === 'kernels' ? MOST_DISPATCHES : MOST_PORTIONS);
    return timer && new KernelTiming(options, timer);
  }

  /** For the descriptor of a part's pass. */
  passAt(index: number): GPUComputePassTimestampWrites {
    return this.#timer.passAt(index);
  }

  /** Encode after the last of a part's passes. */
  resolve(encoder: GPUCommandEncoder, passes: number): void {
    this.#timer.resolve(encoder, passes);
  }

  /**
   * Call when the part's submits are done. submittedMs: when the first began, host clock, milliseconds. passes: those
   * resolved.
   */
  async collect(
    part: readonly Work[],
    piece: Piece,
    { submittedMs, passes }: { submittedMs: number; passes: number },
  ): Promise<void> {
    const doneMs = this.#options.clock.now();
    const times = await this.#timer.read(passes);
    const first = times[0]!;
    const last = times.at(-1)!;
    if (this.mode === 'kernels') {
      for (const [i, { label }] of part.entries()) {
        const { startNs, endNs } = times[i]!;
        this.#add(label, piece, endNs - startNs);
      }
      return;
    }
    this.#alignment.note(first, last, { submittedMs, doneMs });
    this.#options.onSpan({
      name: 'kernels',
      ...onGpu(this.#options.engineId),
      startMs: this.#alignment.toHostMs(first.startNs),
      endMs: this.#alignment.toHostMs(last.endNs),
      clock: 'gpu',
      requestId: null,
      requestIds: piece.requestIds,
      args: {
        rows: piece.numRows,
        kernels: part.length,
        aligned_within_ms: Number(this.#alignment.uncertaintyMs.toFixed(3)),
      },
    });
  }

  take(): KernelTimes {
    const totals = [...this.#totals.values()];
    this.#totals.clear();
    return { totals, smallestStepNs: this.#timer.smallestStepNs };
  }

  destroy(): void {
    this.#timer.destroy();
  }

  #add(label: string, piece: Piece, ns: number): void {
    const place = kernelPlace(label);
    const { kernel, layer } = place;
    const { flops, bytes } = kernelCost(place, piece, this.#options.shapes);
    const sum = this.#totals.get(label) ?? { kernel, layer, calls: 0, ns: 0, flops: 0, bytes: 0 };
    sum.calls += 1;
    sum.ns += ns;
    sum.flops += flops;
    sum.bytes += bytes;
    this.#totals.set(label, sum);
  }
}
