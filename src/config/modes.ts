/** How a cluster serves a turn. */

/**
 * monolithic: one engine does both. unidirectional: P prefills, D pulls and decodes; P recomputes what D generated.
 * bidirectional: P pulls back what D generated. decode-local: from the second turn on D prefills by itself, beside what it
 * decodes; the alternative to pulling back, to be compared with.
 */
export const MODES = ['monolithic', 'unidirectional', 'bidirectional', 'decode-local'] as const;
export type Mode = (typeof MODES)[number];

/** Those that a run takes unless it is told otherwise. */
export const RUN_MODES = ['monolithic', 'unidirectional', 'bidirectional'] as const satisfies readonly Mode[];

/** A benchmark's: compared with each other; monolithic is another deployment, and can be asked for. */
export const BENCH_MODES = [
  'unidirectional',
  'bidirectional',
  'decode-local',
] as const satisfies readonly Mode[];
