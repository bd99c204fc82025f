/** Settings of a simulated cluster. */
import type { KvCacheSpec } from '../config/engine.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import type { Span } from '../measure/spans/spans.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import type { TurnResult } from '../router/turn-types.ts';
import type { SimulationCosts } from './costs/types.ts';
import type { Answers } from './engines/answers.ts';
import type { FleetEvent } from './fleet-event.ts';
import type { LinkSharing } from './network/links.ts';
import type { PastRouting } from './replayed-routing.ts';

export interface SimulationSettings {
  /** The options of a real cluster; those that concern only kernels and devices have no effect. */
  options: ClusterOptions;
  costs: SimulationCosts;
  answers: Answers;
  /** What each of the model's KV cache groups keeps, unless the options make all of them keep everything. */
  groups: readonly KvCacheSpec[];
  /** Bytes of a KV block in the pool, whichever group it belongs to. */
  blockBytes: number;
  sharing: LinkSharing;
  /** Check every invariant after every event. */
  check: boolean;
  /** Calls back in the event loop's next task, when the continuations of resolved promises have run. */
  nextTask: (run: () => void) => void;
  /**
   * Compute decode steps in which only tokens change together, and report only a request's first and last tokens.
   * Faster, with the same results.
   */
  runs: boolean;
  /** The autoscaler; absent or null: the number of engines stays as at the start. */
  autoscale?: AutoscaleChoice | null;
  /** Called with every stage of every turn, which is slower; absent or null: stages are not reported. */
  onSpan?: ((span: Span) => void) | null;
  /** Called with each turn that succeeded. */
  onTurnEnd?: ((result: TurnResult) => void) | null;
  /** Called with what happens to engines, which the fleet then does not record; absent or null: the fleet records it. */
  onFleetEvent?: ((event: FleetEvent) => void) | null;
  /** Seed for the variation of step times, if the costs have any; absent: 0. */
  stepSeed?: number;
  /**
   * Sends turns to the engines that served them in an earlier run, where those are known; absent or null: the policy
   * decides.
   */
  chosen?: PastRouting | null;
  /** Whether faults will be injected; absent: no. */
  faults?: boolean;
  /** Whether the routing policy may change while turns are served; absent: no. */
  reroutable?: boolean;
}
