/**
 * Linear coefficients learned from observations: recursive least squares with forgetting, starting from a prior. Noise is
 * assumed to be relative to the value. Residuals are clipped at EDGE standard deviations, because an outlier such as a pause
 * of the machine says nothing about costs. Coefficients never become negative.
 */

const RELATIVE_NOISE = 0.15;
/** Below this many ms, noise is absolute. */
const FLOOR_MS = 1;
/** Factor by which each observation reduces the weight of earlier ones. */
const FORGETTING = 0.98;
/** Standard deviations. */
const EDGE = 3;

export class RecursiveLeastSquares {
  readonly #coefficients: number[];
  readonly #covariance: number[][];
  /** Initial variances: forgetting never makes a coefficient less certain than this. */
  readonly #mostVariance: readonly number[];

  /** `deviations`: standard deviation of each prior coefficient. */
  constructor(prior: readonly number[], deviations: readonly number[]) {
    this.#coefficients = [...prior];
    this.#mostVariance = deviations.map((d) => d * d);
    this.#covariance = prior.map((_, i) => prior.map((__, j) => (i === j ? this.#mostVariance[i]! : 0)));
  }

  get coefficients(): readonly number[] {
    return this.#coefficients;
  }

  predict(x: readonly number[]): number {
    let sum = 0;
    for (let i = 0; i < x.length; i++) sum += x[i]! * this.#coefficients[i]!;
    return sum;
  }

  observe(x: readonly number[], y: number): void {
    const expected = this.predict(x);
    const noise = (RELATIVE_NOISE * Math.max(expected, FLOOR_MS)) ** 2;
    const spread = this.#covariance.map((row) => row.reduce((sum, value, j) => sum + value * x[j]!, 0));
    // Below 0 only through rounding.
    const uncertainty = Math.max(
      0,
      x.reduce((sum, value, i) => sum + value * spread[i]!, 0),
    );
    const variance = noise + uncertainty;
    const edge = EDGE * Math.sqrt(variance);
    const surprise = Math.max(-edge, Math.min(edge, y - expected));
    for (const i of this.#coefficients.keys()) this.#coefficients[i]! += (spread[i]! / variance) * surprise;
    for (const [i, row] of this.#covariance.entries()) {
      for (const j of row.keys()) row[j] = (row[j]! - (spread[i]! * spread[j]!) / variance) / FORGETTING;
    }
    this.#keepPositive();
    this.#bound();
  }

  /**
   * Moves to the most likely non-negative coefficients. When one is set to 0, the others move according to their covariance
   * with it. Clipping it alone would leave their share of the correction unbalanced, and predictions would drift.
   */
  #keepPositive(): void {
    let covariance = this.#covariance;
    for (;;) {
      const at = this.#coefficients.findIndex((value, i) => value < 0 && covariance[i]![i]! > 0);
      if (at < 0) break;
      const row = covariance[at]!;
      const share = this.#coefficients[at]! / row[at]!;
      for (const i of row.keys()) this.#coefficients[i]! -= share * row[i]!;
      this.#coefficients[at] = 0;
      // Coefficients already at 0 stay there.
      covariance = covariance.map((other, i) =>
        other.map((value, j) => value - (row[i]! * row[j]!) / row[at]!),
      );
      covariance[at] = row.map(() => 0);
    }
    for (const [i, value] of this.#coefficients.entries()) this.#coefficients[i] = Math.max(0, value);
  }

  /** Scales whole rows and columns, not single entries, so that the matrix remains a covariance. */
  #bound(): void {
    const scales = this.#covariance.map((row, i) => {
      const most = this.#mostVariance[i]!;
      return row[i]! > most ? Math.sqrt(most / row[i]!) : 1;
    });
    for (const [i, row] of this.#covariance.entries()) {
      for (const j of row.keys()) row[j]! *= scales[i]! * scales[j]!;
    }
  }
}
