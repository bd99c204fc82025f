/** What goes between whoever watches a fleet and what simulates it in a thread, or runs it for real. Plain data both ways. */
import type { AutoscalerName } from '../../config/autoscale.ts';
import type { RoutingName } from '../../config/routing.ts';
import type { ScaleTarget } from '../../router/scaling/plan.ts';
import type { Comparison } from './compare.ts';
import type { LiveLook, TurnPath } from './look.ts';
import type { LiveLoadSettings, LiveSettings } from './settings.ts';

/** To the thread. What comes before a start is of no effect, but for a comparison. */
export type LiveOrder =
  /** A new fleet, in place of the one there was; its clock begins at 0. */
  | { kind: 'start'; settings: LiveSettings }
  /** Simulated time a second of the wall's; 0 holds it, and of real engines the load. */
  | { kind: 'pace'; speed: number }
  | { kind: 'load'; load: LiveLoadSettings }
  | { kind: 'routing'; name: RoutingName }
  | { kind: 'autoscale'; name: AutoscalerName | null }
  | { kind: 'scale'; target: ScaleTarget }
  | { kind: 'kill'; engineId: string }
  | { kind: 'revive' }
  /** Whose blocks looks tell from now on; null: nobody's. */
  | { kind: 'open'; engineId: string | null }
  /** One turn's way, which is answered. */
  | { kind: 'path'; turnId: string }
  /** Each policy by itself over the same load, to its end; ends what runs. */
  | { kind: 'compare'; settings: LiveSettings; policies: readonly RoutingName[]; seconds: number };

/** From the thread. */
export type LiveNews =
  /** `speed`: what it came to; less than asked for where the machine is too slow. */
  | { kind: 'look'; look: LiveLook; speed: number }
  /** null: it is not remembered any more. */
  | { kind: 'path'; path: TurnPath | null }
  /** What was asked for cannot be. */
  | { kind: 'said'; message: string }
  | { kind: 'comparing'; done: number; policies: number; share: number }
  | { kind: 'compared'; comparison: Comparison }
  /** Nothing runs any more. */
  | { kind: 'failed'; message: string };
