/** What an engine's thread is given, and how its parts access the running engine. */
import type { Clock } from '../engine/types.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineParts } from './build-engine.ts';
import type { EnginePolicy } from './build-policy.ts';
import type { ClockChange } from './engine-api.ts';

export interface HostDeps {
  platform: Platform;
  clock: Clock;
  /** Moves that clock, if it can be moved. */
  moveClock?: (change: ClockChange) => void;
  /** Resolves after messages have been let in between two steps. */
  nextTask: () => Promise<void>;
  /** Ends the thread. Called after the answer to shutdown() has had time to leave. */
  exit: () => void;
}

/** What inspection and lab see of the host. parts() and policy() throw EngineDeadError if the engine is not running. */
export interface RunningEngine {
  parts(): EngineParts;
  policy(): EnginePolicy;
  /** Call when something may have changed what a step would do. */
  wake(): void;
}
