/** Points at which something can be inserted between router and engines or between engines, such as faults. */
import type { EngineClient } from '../router/engine-client.ts';
import type { EngineWire } from '../transport/channel.ts';

/** All are optional. */
export interface ClusterHooks {
  wire?: EngineWire;
  /** Returns what the router sees in place of the engine; called once per engine. */
  client?: (engine: EngineClient) => EngineClient;
}
