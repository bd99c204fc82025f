/** The ways that KV can take to P and to D, as `kvferry bench --paths` compares them. Plain data. */

export const PATHS = [
  'recompute',
  'pull',
  'store',
  'pd-reuse',
  'aibrix-offloading',
  'lmcache',
  'both',
  'first-hit',
  'cost-aware',
] as const;
export type PathName = (typeof PATHS)[number];

/** What each is, for people who read a table. */
export const PATH_MEANINGS: Readonly<Record<PathName, string>> = {
  recompute: 'P computes what it has not itself',
  pull: "P pulls D's KV back",
  store: 'all goes through the store, outputs too',
  'pd-reuse': "the same, prompts only (AIBrix's connector)",
  'aibrix-offloading':
    "all through the store by AIBrix's Type1: saved as a request ends, short loads computed",
  lmcache: "the same by LMCache's: prompts only, as they are computed, in chunks of 256 tokens by the scale",
  both: 'the store and pulls, each run of blocks from where it lies',
  'first-hit': "the same two by vLLM's rule: the store first, and then nothing else",
  'cost-aware': 'of the store, a peer, both and computing what is predicted to be quickest',
};

export const USUAL_PATHS = [
  'recompute',
  'pull',
  'store',
  'pd-reuse',
  'both',
] as const satisfies readonly PathName[];
