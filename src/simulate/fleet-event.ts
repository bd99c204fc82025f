/** What happens to the engines of a simulated fleet. */
import type { EngineRole } from '../router/engine-client.ts';

/** Something that happened to who is there. */
export interface FleetEvent {
  atMs: number;
  event: 'decided' | 'joined' | 'leaving' | 'left' | 'died' | 'failed';
  /** null: of none by itself. */
  engineId: string | null;
  role: EngineRole | null;
  /** For people. */
  detail: string;
}
