/**
 * How much of a step is computed at once: pieces in which the largest kernel takes about maxSubmitMs, and submits that take so
 * long, by what kernels took before. Runs nothing itself.
 */
import type { Kernel } from '../gpu/kernels.ts';
import type { RunnerParts } from './runner-parts.ts';
import type { Work } from './stage.ts';
import type { PieceLimits } from './step-inputs.ts';
import { type EstimatedWork, WorkEstimate } from './work-estimate.ts';

/** A piece has as many rows at the least, however slow the device, and then a multiple of them. */
const LEAST_ROWS = 16;

export class SubmitSizes {
  readonly #parts: Pick<RunnerParts, 'pass' | 'pieceRows' | 'logitRows'>;
  readonly #maxSubmitMs: number;
  readonly #estimate = new WorkEstimate();

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#maxSubmitMs = parts.options.maxSubmitMs;
  }

  /** Sets what a kernel takes, from one dispatch that `time` runs alone, milliseconds. */
  calibrate(work: Work, time: () => Promise<number>): Promise<void> {
    return this.#estimate.calibrate(estimated(work), time);
  }

  /** A submit of these took so many milliseconds. */
  learn(submit: readonly Work[], ms: number): void {
    this.#estimate.learn(submit.map(estimated), ms);
  }

  /** As much as one dispatch of a layer's largest kernel may take. */
  pieceLimits(): PieceLimits {
    const { pass, pieceRows, logitRows } = this.#parts;
    // Of two forms the one that runs is learned: a guess of the other would keep pieces as they are.
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

  /** Consecutive dispatches of about maxSubmitMs each. */
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
