/** What the page's measurements have in common: what they measure with, and how often. */
import type { SessionEvent } from '../../../src/recording/events.ts';
import type { Engines } from './engines.ts';
import type { Settings } from './settings.ts';

/** Of each way that is compared: no claim from one run. */
export const RUNS = 3;

export interface Measuring {
  engines: Engines;
  settings: Settings;
  signal: AbortSignal;
  emit: (event: SessionEvent) => void;
  /** Session's clock, milliseconds. */
  now: () => number;
}
