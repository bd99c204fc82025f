/** A turn's stages added up: what its table says. No DOM. */
import type { Span, TurnView } from '../session/types.ts';
import { LANES, laneOf } from './lanes.ts';

export interface StageSum {
  name: string;
  lane: string;
  clock: Span['clock'];
  count: number;
  ms: number;
  bytes: number;
}

/** Spans inside a turn, summed by lane, name and clock, in the lanes' order. */
export function sumStages(spans: readonly Span[], turn: Pick<TurnView, 'startMs' | 'endMs'>): StageSum[] {
  const sums = new Map<string, StageSum>();
  for (const span of spans) {
    if (span.startMs < turn.startMs || (turn.endMs !== null && span.endMs > turn.endMs)) continue;
    const lane = laneOf(span.lane) ?? span.lane;
    const key = `${lane}\n${span.name}\n${span.clock}`;
    const sum = sums.get(key) ?? { name: span.name, lane, clock: span.clock, count: 0, ms: 0, bytes: 0 };
    sum.count++;
    sum.ms += span.endMs - span.startMs;
    if (typeof span.args.bytes === 'number') sum.bytes += span.args.bytes;
    sums.set(key, sum);
  }
  const order = (lane: string) => (LANES as readonly string[]).indexOf(lane);
  return [...sums.values()].sort((a, b) => order(a.lane) - order(b.lane));
}
