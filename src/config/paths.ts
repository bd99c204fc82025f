/** The KV paths that `kvferry bench --paths` compares: how P and D get their KV. Plain data. */

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

/** Descriptions for help and tables. */
export const PATH_MEANINGS: Readonly<Record<PathName, string>> = {
  recompute: 'P recomputes what it does not have',
  pull: "P pulls D's KV back",
  store: 'all KV goes through the store, outputs too',
  'pd-reuse': "the store with AIBrix's reuse connector: prompts only",
  'aibrix-offloading':
    "the store with AIBrix's Type1 connector: saves when a request ends, computes short loads instead",
  lmcache:
    "the store with LMCache's connector: saves prompts while they are computed, in chunks of 256 tokens divided by the scale",
  both: 'the store and pulls, each run of blocks from wherever it is',
  'first-hit': "the store and pulls by vLLM's rule: if the store has a hit, only the store",
  'cost-aware': 'whichever of store, peer, both and recompute is predicted to be fastest',
};

export const USUAL_PATHS = [
  'recompute',
  'pull',
  'store',
  'pd-reuse',
  'both',
] as const satisfies readonly PathName[];
