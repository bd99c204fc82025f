/** Where what stands between router and engines, or between engines, can be put: faults, for one. */
import type { EngineClient } from '../router/engine-client.ts';
import type { EngineWire } from '../transport/channel.ts';

/** All may be left out. */
export interface ClusterSeams {
  wire?: EngineWire;
  /** What the router sees in place of an engine; asked once for each. */
  client?: (engine: EngineClient) => EngineClient;
}
