/**
 * Applies the chosen autoscaler tick by tick to the views of the engines; drive() has its decisions carried out. It
 * starts and ends no engines itself, so real and simulated engines are scaled by the same code.
 */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { Clock } from '../../engine/types.ts';
import { sum } from '../../sum.ts';
import type { EngineRole } from '../engine-client.ts';
import type { EngineView } from '../plan.ts';
import type { ScaleTarget } from '../scaling/plan.ts';
import type { TurnResult } from '../turn-types.ts';
import { METRICS } from './metrics.ts';
import { type AutoscaleChoice, autoscalerOf, type BuiltAutoscaler, INTERVAL_MS } from './registry.ts';
import { ServedTurns } from './served-turns.ts';
import { type RoleLoad, type ScaleDecision, within } from './types.ts';

export interface RoleDecision extends ScaleDecision {
  engines: number;
  /** The metric that the rule uses, and its mean over the engines that reported it; null: none did. */
  metric: string;
  value: number | null;
}

export interface AutoscaleDecision {
  by: AutoscalerName;
  atMs: number;
  roles: Readonly<Record<EngineRole, RoleDecision>>;
  /** The change to make; null: none. */
  target: ScaleTarget | null;
}

const ROLES = ['prefill', 'decode'] as const;

export class AutoscaleLoop {
  readonly name: AutoscalerName;
  readonly intervalMs: number;
  readonly #choice: AutoscaleChoice;
  readonly #scaler: BuiltAutoscaler;
  readonly #maxNumSeqs: number;
  readonly #served = new ServedTurns();

  /** `maxNumSeqs`: requests that an engine runs at once. Throws ConfigError. */
  constructor(choice: AutoscaleChoice, maxNumSeqs: number) {
    this.name = choice.name;
    this.intervalMs = choice.intervalMs ?? INTERVAL_MS[choice.name];
    this.#choice = choice;
    this.#scaler = autoscalerOf(choice);
    this.#maxNumSeqs = maxNumSeqs;
  }

  turnEnded(result: TurnResult, atMs: number): void {
    this.#served.add(result, atMs);
  }

  /**
   * `views`: engines that may get turns; combined ones are ignored, and ended ones are about to be replaced.
   * `changing`: see FleetLoad. Call with increasing times.
   */
  tick(nowMs: number, views: readonly EngineView[], changing = false): AutoscaleDecision {
    const pairs = views.filter(({ combined }) => !combined);
    this.#served.keep(new Set(views.map(({ engineId }) => engineId)));
    const load = (role: EngineRole): RoleLoad => this.#load(role, pairs, nowMs);
    const loads = { prefill: load('prefill'), decode: load('decode') };
    const decided = this.#scaler.autoscaler.decide({
      nowMs,
      ...loads,
      served: this.#served.take(),
      changing,
    });
    const role = (each: EngineRole): RoleDecision => {
      const { min, max } = this.#choice.bounds[each];
      const { engines, values } = loads[each];
      const mean = sum(values) / values.length;
      const value = values.length === 0 ? null : mean;
      return { engines, metric: this.#label(each), value, ...within(Math.max(1, min), max, decided[each]) };
    };
    const roles = { prefill: role('prefill'), decode: role('decode') };
    const changes = ROLES.filter((each) => roles[each].want !== roles[each].engines);
    const target = Object.fromEntries(changes.map((each) => [each, roles[each].want]));
    return { by: this.name, atMs: nowMs, roles, target: changes.length === 0 ? null : target };
  }

  #load(role: EngineRole, views: readonly EngineView[], nowMs: number): RoleLoad {
    const ofRole = views.filter((view) => view.role === role);
    const serving = ofRole.filter(({ ended }) => !ended);
    const values = serving.flatMap((view) => this.#value(role, view, nowMs) ?? []);
    return { engines: ofRole.length, values };
  }

  #value(role: EngineRole, view: EngineView, nowMs: number): number | null {
    const { metrics } = this.#scaler;
    if (metrics) return METRICS[metrics[role]].of(view, this.#maxNumSeqs);
    const measuredMs =
      role === 'prefill'
        ? this.#served.ttftMs(view.engineId, nowMs)
        : this.#served.itlMs(view.engineId, nowMs);
    // An idle engine counts as taking 0 ms.
    return measuredMs ?? (view.inFlight === 0 ? 0 : null);
  }

  #label(role: EngineRole): string {
    const { metrics } = this.#scaler;
    if (metrics) return METRICS[metrics[role]].label;
    return role === 'prefill' ? 'ms TTFT' : 'ms a token';
  }
}

export interface AutoscaleDriver {
  clock: Clock;
  /** Stops the driver. */
  signal: AbortSignal;
  views: (nowMs: number) => readonly EngineView[];
  scale: (target: ScaleTarget, why: string) => Promise<unknown>;
  /** Whether a change that someone else started is under way. */
  changing: () => boolean;
  /**
   * Reports each decision and each failure. `acts`: the decision is carried out now. `fails`: a change could not be
   * made; the driver continues.
   */
  report: (
    event:
      | { kind: 'decided'; decision: AutoscaleDecision; acts: boolean }
      | { kind: 'fails'; error: unknown },
  ) => void;
}

/**
 * Decides at every interval until the signal aborts. A decision made while a change is under way is not carried out;
 * the next tick decides again.
 */
export async function drive(loop: AutoscaleLoop, driver: AutoscaleDriver): Promise<void> {
  const { clock, signal, views, scale, changing, report } = driver;
  let own = false;
  for (;;) {
    await clock.sleep(loop.intervalMs, signal);
    if (signal.aborted) return;
    const nowMs = clock.now();
    const waits = own || changing();
    const decision = loop.tick(nowMs, views(nowMs), waits);
    report({ kind: 'decided', decision, acts: decision.target !== null && !waits });
    if (!decision.target || waits) continue;
    own = true;
    scale(decision.target, reasonOf(decision))
      .catch((error: unknown) => report({ kind: 'fails', error }))
      .finally(() => {
        own = false;
      });
  }
}

/** The reason in one sentence: for the roles that change, or for both if neither does. */
export function reasonOf({ by, roles }: AutoscaleDecision): string {
  const changed = ROLES.filter((role) => roles[role].want !== roles[role].engines);
  const parts = (changed.length > 0 ? changed : ROLES).map((role) => {
    const { engines, want, metric, why } = roles[role];
    return `${role} ${want === engines ? 'stays' : `${engines} to`} ${want} (${metric}: ${why})`;
  });
  return `${by}: ${parts.join(', ')}`;
}
