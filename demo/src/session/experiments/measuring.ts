/** Shared by the page's measurements: their tools and the number of runs. */
import type { SessionEvent } from '../../../../src/recording/events.ts';
import type { Engines } from '../engines.ts';
import type { Settings } from '../settings.ts';

/** Runs of each compared way: one run is not enough for a claim. */
export const RUNS = 3;

export interface Measuring {
  engines: Engines;
  settings: Settings;
  signal: AbortSignal;
  emit: (event: SessionEvent) => void;
  /** The session's clock, milliseconds. */
  now: () => number;
}
