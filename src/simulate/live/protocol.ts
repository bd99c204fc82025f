/**
 * Messages between the viewer of a fleet and the thread that simulates it, or the code that runs it for real. Plain
 * data both ways.
 */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { RoutingName } from '../../config/routing.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import type { Comparison } from './compare.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';
import type { LiveLook, TurnPath } from './view.ts';

/** To the thread. Orders before a start have no effect, except for a comparison. */
export type LiveOrder =
  /** A new fleet in place of the current one; its clock begins at 0. */
  | { kind: 'start'; settings: LiveSettings }
  /** Simulated seconds in a second of the wall clock; 0 pauses them, and of real engines the load. */
  | { kind: 'pace'; speed: number }
  /** Serves the same load with each policy, to its end; ends what runs. */
  | { kind: 'compare'; settings: LiveSettings; policies: readonly RoutingName[]; seconds: number }
  | FleetOrder;

/** To the current fleet. */
export type FleetOrder =
  | { kind: 'load'; load: LiveLoadSettings }
  | { kind: 'routing'; name: RoutingName }
  | { kind: 'autoscale'; name: AutoscalerName | null }
  | { kind: 'scale'; target: ScaleTarget }
  | { kind: 'kill'; engineId: string }
  | { kind: 'revive' }
  /** The engine whose blocks looks show from now on; null: none. */
  | { kind: 'open'; engineId: string | null }
  /** Asks for one turn's way, which is sent as news. */
  | { kind: 'path'; turnId: string };

/** From the thread. */
export type LiveNews =
  /** `speed`: the pace that was reached, less than asked for if the machine is too slow. */
  | { kind: 'look'; look: LiveLook; speed: number }
  /** null: the turn is no longer remembered. */
  | { kind: 'path'; path: TurnPath | null }
  /** An order cannot be carried out. */
  | { kind: 'said'; message: string }
  | { kind: 'comparing'; done: number; policies: number; share: number }
  | { kind: 'compared'; comparison: Comparison }
  /** An error ended the fleet or the comparison. */
  | { kind: 'failed'; message: string };
