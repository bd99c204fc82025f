/** Sums of a turn's stages, for its table. No DOM. */

import type { Span, TurnView } from '../../session/types.ts';
import type { DrawnIds } from '../stage/direction.ts';
import { LANES, laneNames, whereOf } from './lanes.ts';

export interface StageSum {
  name: string;
  /** The lane's label. */
  where: string;
  clock: Span['clock'];
  count: number;
  ms: number;
  bytes: number;
}

/** Spans inside a turn, summed by lane, name and clock, in the lanes' order. */
export function sumStages(
  spans: readonly Span[],
  turn: Pick<TurnView, 'startMs' | 'endMs'>,
  drawn: DrawnIds,
): StageSum[] {
  const sums = new Map<string, StageSum>();
  for (const span of spans) {
    if (span.startMs < turn.startMs || (turn.endMs !== null && span.endMs > turn.endMs)) continue;
    const { name, clock } = span;
    const where = whereOf(span, drawn);
    const key = `${where}\n${name}\n${clock}`;
    const sum = sums.get(key) ?? { name, where, clock, count: 0, ms: 0, bytes: 0 };
    sum.count++;
    sum.ms += span.endMs - span.startMs;
    if (typeof span.args.bytes === 'number') sum.bytes += span.args.bytes;
    sums.set(key, sum);
  }
  // Engines that are not drawn come last.
  const order = laneNames.map((lane): string => LANES[lane].label);
  const placeOf = ({ where }: StageSum) => {
    const place = order.indexOf(where);
    return place < 0 ? order.length : place;
  };
  return [...sums.values()].sort((a, b) => placeOf(a) - placeOf(b));
}
