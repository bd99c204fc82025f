/** What an engine's policy counts since it was built. */
import type { NoPull } from './types.ts';

export interface EngineCounters {
  steps: number;
  /** Steps that ran the model. */
  forwardPasses: number;
  preemptions: number;
  /** Tokens asked for, and found, at each request's first admission. */
  prefixCache: { queries: number; hits: number };
  /** The same beyond the local hits; found is what arrived. */
  externalPrefixCache: { queries: number; hits: number };
  /** Prompts that nothing was pulled for although something was offered, by why. */
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
