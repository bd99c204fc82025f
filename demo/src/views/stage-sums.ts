/** A turn's stages added up: what its table says. No DOM. */

import { laneName } from '../../../src/measure/spans.ts';
import type { Span, TurnView } from '../session/types.ts';
import type { DrawnIds } from './direction.ts';
import { LANES, laneNames, laneOf } from './lanes.ts';

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
    const lane = laneOf(span, drawn);
    const where = lane === null ? laneName(span) : LANES[lane].label;
    const key = `${where}\n${name}\n${clock}`;
    const sum = sums.get(key) ?? { name, where, clock, count: 0, ms: 0, bytes: 0 };
    sum.count++;
    sum.ms += span.endMs - span.startMs;
    if (typeof span.args.bytes === 'number') sum.bytes += span.args.bytes;
    sums.set(key, sum);
  }
  const order = ({ where }: StageSum) => laneNames.findIndex((lane) => LANES[lane].label === where);
  return [...sums.values()].sort((a, b) => order(a) - order(b));
}
