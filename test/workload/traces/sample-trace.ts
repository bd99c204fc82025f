/** Small traces for tests, as requests and turns. */
import { BadLines } from '../../../src/workload/traces/bad-lines.ts';
import { TurnMaker } from '../../../src/workload/traces/turns.ts';
import type { TraceRequest, TraceScale, TraceTurn } from '../../../src/workload/traces/types.ts';

export const UNSCALED: TraceScale = { traceBlockSize: 16, lengthDivisor: 1, speedUp: 1 };

/** A second after the one before, without hash ids or session, unless `more` says otherwise. */
export function request(index: number, more: Partial<TraceRequest>): TraceRequest {
  return {
    index,
    line: index + 1,
    arrivalMs: 1000 * index,
    answeredMs: null,
    inputTokens: 16,
    outputTokens: 4,
    hashIds: null,
    origin: { kind: 'unsaid' },
    ...more,
  };
}

export function turnsOf(
  requests: readonly TraceRequest[],
  scale: TraceScale = UNSCALED,
  maxModelLen: number | null = null,
): TraceTurn[] {
  const maker = new TurnMaker({ scale, maxModelLen, bad: new BadLines('made', false) });
  return requests.map((one) => maker.next(one)!);
}
