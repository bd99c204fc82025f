/** The ways that KV can take to P and to D, as `kvferry bench --paths` compares them. Plain data. */

/**
 * recompute: P computes all that it has not itself, and hands it to D. pull: it pulls D's KV back. store: all goes through
 * the store, outputs too, and nothing between engines. pd-reuse: the same with prompts only (AIBrix's connector). both:
 * the store and pulls, each run of blocks from where it lies. first-hit: the same two by vLLM's rule.
 * cost-aware: the two again, and computing, whatever is predicted to cost least.
 */
export const PATHS = ['recompute', 'pull', 'store', 'pd-reuse', 'both', 'first-hit', 'cost-aware'] as const;
export type PathName = (typeof PATHS)[number];

export const USUAL_PATHS = [
  'recompute',
  'pull',
  'store',
  'pd-reuse',
  'both',
] as const satisfies readonly PathName[];
