/** How busy an engine is, as a metric would say it. */
export interface EngineLoad extends EngineQueues, EngineRates {
  /** When, on the shared clock, milliseconds. */
  atMs: number;
}

export interface EngineQueues {
  running: number;
  waiting: number;
  waitingForRemote: number;
  freeBlocks: number;
  /** The null block does not count. */
  numBlocks: number;
}

/** Over RATE_WINDOW_MS: tokens a second (prompts' computed ones, and generated ones), and requests that ended a second. */
export interface EngineRates {
  promptTokensPerSecond: number;
  generationTokensPerSecond: number;
  endedPerSecond: number;
}

/** A rate forgets with this time constant: what was counted so long ago weighs 1/e. */
export const RATE_WINDOW_MS = 1000;

/** A load as it is so much later, nothing having happened: its rates fade. */
export function faded<Rates extends EngineRates>(load: Rates, laterMs: number): Rates {
  const share = Math.exp(-Math.max(0, laterMs) / RATE_WINDOW_MS);
  return {
    ...load,
    promptTokensPerSecond: load.promptTokensPerSecond * share,
    generationTokensPerSecond: load.generationTokensPerSecond * share,
    endedPerSecond: load.endedPerSecond * share,
  };
}
