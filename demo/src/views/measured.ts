/** Points of a sweep that have been measured both ways. */
import type { Crossover } from '../session/types.ts';
import type { CrossoverPoint } from './crossover-math.ts';

export const measured = (crossover: Crossover | null): CrossoverPoint[] =>
  (crossover?.points ?? []).flatMap(({ tokens, pullMs, recomputeMs }) =>
    pullMs === null || recomputeMs === null ? [] : [{ tokens, pullMs, recomputeMs }],
  );
