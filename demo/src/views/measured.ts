/** Measured values for the page's figures. */
import type { Crossover, TransferView } from '../session/types.ts';
import type { CrossoverPoint } from './crossover/crossover-math.ts';

/** How long an ended transfer moved bytes, milliseconds. A streamed transfer as a whole also includes P's computing. */
export const movedMs = ({ startMs, endMs, movingMs }: TransferView): number =>
  movingMs ?? (endMs ?? startMs) - startMs;

/** The points of a sweep that were measured both ways. */
export const measured = (crossover: Crossover | null): CrossoverPoint[] =>
  (crossover?.points ?? []).flatMap(({ tokens, pullMs, recomputeMs }) =>
    pullMs === null || recomputeMs === null ? [] : [{ tokens, pullMs, recomputeMs }],
  );
