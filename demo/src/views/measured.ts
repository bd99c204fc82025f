/** Measured values for the page's figures. */
import type { Crossover, TransferView } from '../session/types.ts';
import type { CrossoverPoint } from './crossover/crossover-math.ts';
import { ms, rate } from './format.ts';

/** How long an ended transfer moved bytes, milliseconds. A streamed transfer as a whole also includes P's computing. */
export const movedMs = ({ startMs, endMs, movingMs }: TransferView): number =>
  movingMs ?? (endMs ?? startMs) - startMs;

/** A copy's time and rate. A modelled link is named. */
export const timeAndRate = (tookMs: number, moved: number, throttled: boolean): string =>
  `${ms(tookMs)}, ${rate(moved, tookMs)}${throttled ? ' over a modelled link' : ''}`;

/** The points of a sweep that were measured both ways. */
export const measured = (crossover: Crossover | null): CrossoverPoint[] =>
  (crossover?.points ?? []).flatMap(({ tokens, pullMs, recomputeMs }) =>
    pullMs === null || recomputeMs === null ? [] : [{ tokens, pullMs, recomputeMs }],
  );
