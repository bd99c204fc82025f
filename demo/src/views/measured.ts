/** What was measured, as figures are made of it. */
import type { Crossover, TransferView } from '../session/types.ts';
import type { CrossoverPoint } from './crossover-math.ts';

/** How long an ended transfer's bytes took: a streamed one's lasts as long as P computes. */
export const movedMs = ({ startMs, endMs, movingMs }: TransferView): number =>
  movingMs ?? (endMs ?? startMs) - startMs;

/** Points of a sweep that have been measured both ways. */
export const measured = (crossover: Crossover | null): CrossoverPoint[] =>
  (crossover?.points ?? []).flatMap(({ tokens, pullMs, recomputeMs }) =>
    pullMs === null || recomputeMs === null ? [] : [{ tokens, pullMs, recomputeMs }],
  );
