/**
 * AIBrix's PodAutoscaler (pkg/controller/podautoscaler), strategies APA and KPA. They are kept as they are in AIBrix,
 * including where they differ from what they are named after:
 * - KPA divides the mean per engine by the target and does not multiply by the number of engines; Knative's value is
 *   a total.
 * - Panic does not persist from one tick to the next.
 * - Scaling down takes the LEAST recommendation in the window (Kubernetes: the most), so a longer window scales down
 *   sooner.
 *
 * The Kubernetes rule is in k8s-hpa.ts.
 */
import { z } from 'zod';
import { sum } from '../../sum.ts';
import { type RoleLoad, type RoleScaler, type ScaleDecision, within } from './types.ts';
import { TimeWindow, UpDownWindows } from './window.ts';

const common = {
  /** Target value of the metric per engine. */
  target: z.number().positive(),
  minEngines: z.number().int().nonnegative().default(1),
  maxEngines: z.number().int().positive().default(8),
  scaleToZero: z.boolean().default(false),
  observeWindowSeconds: z.number().positive().default(180),
  maxScaleUpRate: z.number().min(1).default(2),
  maxScaleDownRate: z.number().min(1).default(2),
  scaleUpTolerance: z.number().nonnegative().default(0.1),
  scaleDownTolerance: z.number().nonnegative().default(0.1),
  scaleUpCooldownSeconds: z.number().nonnegative().default(0),
  scaleDownCooldownSeconds: z.number().nonnegative().default(300),
};
export const apaSchema = z.strictObject(common);
export const kpaSchema = z.strictObject({
  ...common,
  panicWindowSeconds: z.number().min(1).max(3600).default(60),
  /** Panic: the short window's mean is more than this many times the long window's. */
  panicThreshold: z.number().positive().default(2),
});
type Common = z.output<typeof apaSchema>;

/**
 * Scales n engines by `ratio` if it is above 1 + scaleUpTolerance or below 1 - scaleDownTolerance, by at most one
 * step's rate.
 */
export function apaEngines(n: number, ratio: number, parameters: Omit<Common, 'target'>): number {
  const { maxScaleUpRate, maxScaleDownRate, scaleUpTolerance, scaleDownTolerance } = parameters;
  if (ratio > 1 + scaleUpTolerance) return Math.min(Math.ceil(n * ratio), Math.ceil(maxScaleUpRate * n));
  if (ratio < 1 - scaleDownTolerance) return Math.max(Math.ceil(n * ratio), Math.floor(n / maxScaleDownRate));
  return n;
}

/** KPA's rule: `value`, the mean per engine, divided by the target, whatever n is; then one step's rate. */
export function kpaEngines(n: number, value: number, parameters: Common): number {
  const { target, maxScaleUpRate, maxScaleDownRate, scaleUpTolerance, scaleDownTolerance } = parameters;
  const outside = value > target * (1 + scaleUpTolerance) || value < target * (1 - scaleDownTolerance);
  const desired = outside ? Math.ceil(value / target) : n;
  const most = Math.max(1, Math.ceil(maxScaleUpRate * n));
  return Math.min(most, Math.max(Math.floor(n / maxScaleDownRate), desired));
}

export class AibrixApa implements RoleScaler {
  readonly #parameters: Common;
  readonly #observed: TimeWindow;
  readonly #cooldown: Cooldown;

  constructor(parameters: Common) {
    this.#parameters = parameters;
    this.#observed = new TimeWindow(parameters.observeWindowSeconds);
    this.#cooldown = new Cooldown(parameters);
  }

  decide(nowMs: number, load: RoleLoad): ScaleDecision {
    const value = observed(this.#observed, nowMs, load);
    const n = load.engines;
    if (value === null) return { want: n, why: 'no metrics' };
    const ratio = value / this.#parameters.target;
    const want = apaEngines(n, ratio, this.#parameters);
    const why = `${format(value)} per engine is ${ratio.toFixed(2)} of ${this.#parameters.target}`;
    return this.#cooldown.decide(nowMs, n, { want, why });
  }
}

export class AibrixKpa implements RoleScaler {
  readonly #parameters: z.output<typeof kpaSchema>;
  readonly #stable: TimeWindow;
  readonly #panic: TimeWindow;
  readonly #cooldown: Cooldown;

  constructor(parameters: z.output<typeof kpaSchema>) {
    this.#parameters = parameters;
    this.#stable = new TimeWindow(parameters.observeWindowSeconds);
    this.#panic = new TimeWindow(parameters.panicWindowSeconds);
    this.#cooldown = new Cooldown(parameters);
  }

  decide(nowMs: number, load: RoleLoad): ScaleDecision {
    const stable = observed(this.#stable, nowMs, load);
    const panic = observed(this.#panic, nowMs, load);
    const n = load.engines;
    if (stable === null || panic === null) return { want: n, why: 'no metrics' };
    const { target, panicThreshold } = this.#parameters;
    const calm = kpaEngines(n, stable, this.#parameters);
    if (stable > 0 && panic / stable <= panicThreshold) {
      return this.#cooldown.decide(nowMs, n, {
        want: calm,
        why: `${format(stable)} per engine, target ${target}`,
      });
    }
    const want = Math.max(calm, kpaEngines(n, panic, this.#parameters));
    const why = `panic: ${format(panic)} per engine after ${format(stable)}, target ${target}`;
    return this.#cooldown.decide(nowMs, n, { want, why });
  }
}

/**
 * Takes the most of the recent recommendations when scaling up and the least when scaling down, then applies the
 * bounds.
 */
class Cooldown {
  readonly #parameters: Common;
  readonly #recent: UpDownWindows;

  constructor(parameters: Common) {
    this.#parameters = parameters;
    this.#recent = new UpDownWindows(parameters.scaleUpCooldownSeconds, parameters.scaleDownCooldownSeconds);
  }

  decide(nowMs: number, n: number, { want, why }: ScaleDecision): ScaleDecision {
    this.#recent.add(nowMs, want, want);
    const { minEngines, maxEngines, scaleToZero } = this.#parameters;
    const chosen = want > n ? this.#recent.up.most() : want < n ? this.#recent.down.least() : want;
    const recent = chosen === want ? why : `${why}; ${chosen} was recommended before`;
    return within(Math.max(minEngines, scaleToZero ? 0 : 1), maxEngines, { want: chosen, why: recent });
  }
}

/** The mean over the window of the engines' means; null if empty. Engines that reported nothing do not count. */
function observed(window: TimeWindow, nowMs: number, { values }: RoleLoad): number | null {
  if (values.length > 0) window.add(nowMs, sum(values) / values.length);
  return window.mean(nowMs);
}

const format = (value: number): string => String(Number(value.toPrecision(4)));
