/**
 * Kubernetes' HorizontalPodAutoscaler for a pods metric (pkg/controller/podautoscaler: replica_calculator.go,
 * horizontal.go, default behaviour):
 * - ceil(n * mean / target), outside the tolerance
 * - engines that reported nothing count as idle when scaling up, and as at the target when scaling down
 * - scaling down takes the most that was recommended in the last 300 s
 * - scaling up adds 4 or doubles in 15 s, whichever is more
 */
import { z } from 'zod';
import { sum } from '../../sum.ts';
import { type RoleLoad, type RoleScaler, type ScaleDecision, within } from './types.ts';
import { UpDownWindows } from './window.ts';

export const hpaSchema = z.strictObject({
  /** Target value of the metric per engine. */
  target: z.number().positive(),
  minEngines: z.number().int().positive().default(1),
  maxEngines: z.number().int().positive().default(8),
  tolerance: z.number().nonnegative().default(0.1),
  scaleUpStabilizationSeconds: z.number().nonnegative().default(0),
  scaleDownStabilizationSeconds: z.number().nonnegative().default(300),
  scaleUpPods: z.number().int().positive().default(4),
  scaleUpPercent: z.number().positive().default(100),
  scaleDownPercent: z.number().positive().max(100).default(100),
  periodSeconds: z.number().positive().default(15),
});
type HpaParameters = z.output<typeof hpaSchema>;

/** The replica calculator. `values` has one value for each of the `engines` that reported. */
export function hpaEngines(
  { engines, values }: RoleLoad,
  { target, tolerance }: Pick<HpaParameters, 'target' | 'tolerance'>,
): number {
  if (values.length === 0) return engines;
  const total = sum(values);
  const ratio = total / values.length / target;
  const missing = Math.max(0, engines - values.length);
  const same = (r: number) => r >= 1 - tolerance && r <= 1 + tolerance;
  if (missing === 0) return same(ratio) ? engines : Math.ceil(withoutRoundingError(ratio * values.length));
  const all = values.length + missing;
  // Assumed values of engines without metrics never reverse the direction.
  const cautious = (total + (ratio < 1 ? missing * target : 0)) / all / target;
  if (same(cautious) || (ratio < 1 && cautious > 1) || (ratio > 1 && cautious < 1)) return engines;
  const desired = Math.ceil(withoutRoundingError(cautious * all));
  return (cautious < 1 && desired > engines) || (cautious > 1 && desired < engines) ? engines : desired;
}

/** Removes rounding errors: 3.0000000000000004 engines are 3. */
const withoutRoundingError = (value: number): number => Number(value.toPrecision(12));

export class KubernetesHpa implements RoleScaler {
  readonly #parameters: HpaParameters;
  readonly #recent: UpDownWindows;
  /** Engines added and removed within the period. */
  readonly #moved: UpDownWindows;
  #isFirst = true;

  constructor(parameters: HpaParameters) {
    this.#parameters = parameters;
    const { scaleUpStabilizationSeconds, scaleDownStabilizationSeconds, periodSeconds } = parameters;
    // Kubernetes counts what came after (now - window), excluding the boundary; ticks are exactly one period apart.
    this.#recent = new UpDownWindows(scaleUpStabilizationSeconds, scaleDownStabilizationSeconds, true);
    this.#moved = new UpDownWindows(periodSeconds, periodSeconds, true);
  }

  decide(nowMs: number, load: RoleLoad, changing: boolean): ScaleDecision {
    const { target, minEngines, maxEngines } = this.#parameters;
    const n = load.engines;
    const desired = hpaEngines(load, this.#parameters);
    const mean = sum(load.values) / load.values.length;
    const why =
      load.values.length > 0 ? `${Number(mean.toPrecision(4))} per engine, target ${target}` : 'no metrics';
    const stable = this.#stabilized(nowMs, n, { want: desired, why });
    const decision = within(minEngines, maxEngines, this.#byRate(nowMs, n, stable));
    if (!changing) this.#moved.add(nowMs, Math.max(0, decision.want - n), Math.max(0, n - decision.want));
    return decision;
  }

  /** Scales up to at most the least recommendation of its window, and down to at least the most of its own. */
  #stabilized(nowMs: number, n: number, { want, why }: ScaleDecision): ScaleDecision {
    this.#begin(nowMs, n);
    this.#recent.add(nowMs, want, want);
    const [up, down] = [this.#recent.up.least(), this.#recent.down.most()];
    const stable = n < up ? up : n > down ? down : n;
    return stable === want
      ? { want, why }
      : { want: stable, why: `${why}; ${want} has not been wanted for long enough` };
  }

  /** The initial number counts as a recommendation, so nothing is removed before the first window has passed. */
  #begin(nowMs: number, n: number): void {
    if (!this.#isFirst) return;
    this.#isFirst = false;
    const { scaleUpStabilizationSeconds, scaleDownStabilizationSeconds } = this.#parameters;
    if (scaleUpStabilizationSeconds > 0) this.#recent.up.add(nowMs, n);
    if (scaleDownStabilizationSeconds > 0) this.#recent.down.add(nowMs, n);
  }

  #byRate(nowMs: number, n: number, { want, why }: ScaleDecision): ScaleDecision {
    const { scaleUpPods, scaleUpPercent, scaleDownPercent } = this.#parameters;
    this.#moved.add(nowMs, 0, 0);
    const before = n - this.#moved.up.sum() + this.#moved.down.sum();
    const most = Math.max(before + scaleUpPods, Math.ceil(before * (1 + scaleUpPercent / 100)));
    if (want > n && want > most) return { want: Math.max(n, most), why: `${why}; not more at once` };
    const least = Math.floor(before * (1 - scaleDownPercent / 100));
    if (want < n && want < least) return { want: Math.min(n, least), why: `${why}; not fewer at once` };
    return { want, why };
  }
}
