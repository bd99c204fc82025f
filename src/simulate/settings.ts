/** What a simulated cluster is made of. */
import type { KvCacheSpec } from '../config/engine.ts';
import type { ClusterOptions } from '../fleet/types.ts';
import type { Span } from '../measure/spans.ts';
import type { AutoscaleChoice } from '../router/autoscale/registry.ts';
import type { TurnResult } from '../router/turn-types.ts';
import type { Answers } from './answers.ts';
import type { Chosen } from './chosen.ts';
import type { SimulationCosts } from './costs/types.ts';
import type { FleetEvent } from './fleet-event.ts';
import type { LinkSharing } from './links.ts';

export interface SimulationSettings {
  /** What a cluster of threads would be built from; what is of kernels and devices alone is of no effect. */
  options: ClusterOptions;
  costs: SimulationCosts;
  answers: Answers;
  /** What the model's KV cache groups keep, unless options say that they keep everything. */
  groups: readonly KvCacheSpec[];
  /** Bytes of a KV block, whichever group has it. */
  blockBytes: number;
  sharing: LinkSharing;
  /** Checks every invariant after every event. */
  check: boolean;
  /** Calls back when promises that were resolved have run on: in the event loop's next task. */
  nextTask: (run: () => void) => void;
  /**
   * Takes decode steps in which nothing can change at once, and tells of a request's first and last token alone: the same
   * comes out, sooner.
   */
  runs: boolean;
  /** Whose rule says how many engines there are; absent: as many as at the start. */
  autoscale?: AutoscaleChoice | null;
  /** Told every stage of every turn, which takes time; absent: nobody is. */
  onSpan?: ((span: Span) => void) | null;
  /** Told of each turn that ended well. */
  onTurnEnd?: ((result: TurnResult) => void) | null;
  /** Told what happens to engines, which the fleet then does not keep; absent: it keeps it. */
  onFleetEvent?: ((event: FleetEvent) => void) | null;
  /** Of how steps' times vary, where costs say that they do; absent: 0. */
  stepSeed?: number;
  /** Turns go where they went before, as far as that is known; absent: where the policy says. */
  chosen?: Chosen | null;
  /** Things are to go wrong; absent: nothing does. */
  faults?: boolean;
  /** Another policy may take over while turns are served; absent: the first one stays. */
  reroutable?: boolean;
}
