/** Counters of an engine's policy, since the engine was created. */
import { NO_PULL_REASONS, type NoPull } from './types.ts';

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

/** A count for each reason not to pull. */
export const eachNoPull = (count: (by: NoPull['by']) => number): EngineCounters['noPulls'] =>
  Object.fromEntries(NO_PULL_REASONS.map((by) => [by, count(by)])) as EngineCounters['noPulls'];

export const startCounting = (): EngineCounters => ({
  steps: 0,
  forwardPasses: 0,
  preemptions: 0,
  prefixCache: { queries: 0, hits: 0 },
  externalPrefixCache: { queries: 0, hits: 0 },
  noPulls: eachNoPull(() => 0),
});
