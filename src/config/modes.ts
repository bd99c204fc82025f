/** Modes: how a cluster serves a turn. */

/**
 * monolithic: one engine prefills and decodes. unidirectional: P prefills, D pulls and decodes; P recomputes what D
 * generated. bidirectional: P pulls back what D generated. decode-local: from the second turn on, D prefills alone while it
 * decodes other requests; an alternative to pulling back, for comparison.
 */
export const MODES = ['monolithic', 'unidirectional', 'bidirectional', 'decode-local'] as const;
export type Mode = (typeof MODES)[number];

/** Default modes of a run. */
export const RUN_MODES = ['monolithic', 'unidirectional', 'bidirectional'] as const satisfies readonly Mode[];

/** Default modes of a benchmark. monolithic is a different deployment and only runs on request. */
export const BENCH_MODES = [
  'unidirectional',
  'bidirectional',
  'decode-local',
] as const satisfies readonly Mode[];
