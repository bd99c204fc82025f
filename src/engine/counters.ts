/** Counters of an engine's policy, since the engine was created. */
import type { NoPull } from './types.ts';

export interface EngineCounters {
  steps: number;
  /** Steps that ran the model. */
  forwardPasses: number;
  preemptions: number;
  /** Tokens looked up, and found, at each request's first admission. */
  prefixCache: { queries: number; hits: number };
  /** The same beyond the local hits. A hit is a token whose KV arrived. */
  externalPrefixCache: { queries: number; hits: number };
  /** Prompts for which nothing was pulled although something was offered, by reason. */
  noPulls: Record<NoPull['by'], number>;
}

export const startCounting = (): EngineCounters => ({
  steps: 0,
  forwardPasses: 0,
  preemptions: 0,
  prefixCache: { queries: 0, hits: 0 },
  externalPrefixCache: { queries: 0, hits: 0 },
  noPulls: { policy: 0, request: 0, offer: 0, transfer: 0, preemption: 0 },
});
