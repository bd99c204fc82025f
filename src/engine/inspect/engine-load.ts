/** How busy an engine is: the figures behind its metrics. */
export interface EngineLoad extends EngineQueues, EngineRates {
  /** When this was measured, ms on the shared clock. */
  atMs: number;
}

export interface EngineQueues {
  running: number;
  waiting: number;
  waitingForRemote: number;
  freeBlocks: number;
  /** Without the null block. */
  numBlocks: number;
}

export const noQueues = (): EngineQueues => ({
  running: 0,
  waiting: 0,
  waitingForRemote: 0,
  freeBlocks: 0,
  numBlocks: 0,
});

/** Rates over RATE_WINDOW_MS: computed prompt tokens, generated tokens and ended requests, each per second. */
export interface EngineRates {
  promptTokensPerSecond: number;
  generationTokensPerSecond: number;
  endedPerSecond: number;
}

/** Time constant of the rates, ms: an event this long ago has weight 1/e. */
export const RATE_WINDOW_MS = 1000;

/** The load `laterMs` ms later if nothing happened meanwhile: its rates have decayed. */
export function faded<Rates extends EngineRates>(load: Rates, laterMs: number): Rates {
  const share = Math.exp(-Math.max(0, laterMs) / RATE_WINDOW_MS);
  return {
    ...load,
    promptTokensPerSecond: load.promptTokensPerSecond * share,
    generationTokensPerSecond: load.generationTokensPerSecond * share,
    endedPerSecond: load.endedPerSecond * share,
  };
}
