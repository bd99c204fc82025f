/** What an engine's thread is given, and what its parts see of the engine that runs in it. */
import type { Clock } from '../engine/types.ts';
import type { Platform } from '../platform/types.ts';
import type { EngineParts } from './build-engine.ts';
import type { EnginePolicy } from './build-policy.ts';
import type { ClockChange } from './engine-api.ts';

export interface HostDeps {
  platform: Platform;
  clock: Clock;
  /** Moves that clock, where it can be moved. */
  moveClock?: (change: ClockChange) => void;
  /** Lets messages in between two steps. */
  nextTask: () => Promise<void>;
  /** Ends the thread; called once the answer to shutdown() had time to leave. */
  exit: () => void;
}

/** What inspection and lab see of the host. Each throws EngineDeadError when there is none. */
export interface RunningEngine {
  parts(): EngineParts;
  policy(): EnginePolicy;
  /** A call may have changed what a step would do. */
  wake(): void;
}
