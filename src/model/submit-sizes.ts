/**
 * Decides how much of a step is computed at once, from measured kernel times: pieces whose largest kernel takes about
 * maxSubmitMs, and submits of that duration. Runs nothing itself.
 */
import type { Kernel } from '../gpu/kernels.ts';
import type { Work } from './pass/stage.ts';
import type { PieceLimits } from './pass/step-inputs.ts';
import { type EstimatedWork, WorkEstimate } from './pass/work-estimate.ts';
import type { RunnerParts } from './runner-parts.ts';

/**
 * Dispatches that are timed as one on a GPU, where a single one is mostly round trip: its time would cut the first
 * prompts into far too many submits.
 */
const TOGETHER_ON_GPU = 16;

/** Fewest rows of a piece, even on a slow device. Larger pieces are a multiple of this. */
const LEAST_ROWS = 16;

export class SubmitSizes {
  readonly #parts: Pick<RunnerParts, 'pass' | 'pieceRows' | 'logitRows'>;
  readonly #maxSubmitMs: number;
  readonly #estimate = new WorkEstimate();
  readonly #together: number;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#maxSubmitMs = parts.options.maxSubmitMs;
    this.#together = parts.options.gpu.report.software ? 1 : TOGETHER_ON_GPU;
  }

  /** Sets a kernel's rate. `time` runs this dispatch so many times in one submit, and returns milliseconds. */
  calibrate(work: Work, time: (times: number) => Promise<number>): Promise<void> {
    return this.#estimate.calibrate(estimated(work), time, this.#together);
  }

  /** Corrects the estimates: this submit took `ms` milliseconds. */
  learn(submit: readonly Work[], ms: number): void {
    this.#estimate.learn(submit.map(estimated), ms);
  }

  /** Limits that keep one dispatch of a layer's largest kernel within maxSubmitMs. */
  pieceLimits(): PieceLimits {
    const { pass, pieceRows, logitRows } = this.#parts;
    // Only the form that runs is learned. Taking the faster of two rates keeps the other form's guess from fixing the
    // piece size.
    const rates = [LEAST_ROWS, pieceRows].map((rows) => this.#rate(pass.gemmKernel(rows)));
    const gemmMs = pass.rowWork * Math.min(...rates);
    const pairMs = pass.pairWork * this.#rate(pass.attentionKernel());
    const rows = Math.floor(this.#maxSubmitMs / gemmMs / LEAST_ROWS) * LEAST_ROWS;
    return {
      rows: Math.min(Math.max(rows, LEAST_ROWS), pieceRows),
      attendedKeys: Math.max(this.#maxSubmitMs / pairMs, 1),
      logitRows,
    };
  }

  /** Cuts the dispatches into consecutive submits of about maxSubmitMs each. */
  cut(all: readonly Work[]): Work[][] {
    const parts: Work[][] = [];
    let open: Work[] = [];
    let ms = 0;
    for (const work of all) {
      const more = this.#estimate.milliseconds(estimated(work));
      if (open.length > 0 && ms + more > this.#maxSubmitMs) {
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

  #rate(kernel: Kernel): number {
    return this.#estimate.rate(kernel);
  }
}

const estimated = ({ kernel, work }: Work): EstimatedWork => ({ key: kernel, work });
