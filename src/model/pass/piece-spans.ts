/**
 * Reports a finished piece as spans on the host's clock: 'forward' until the device has computed it, then 'sampling'
 * until the results are read.
 */
import { onGpu, onHost, type SpanSink } from '../../measure/spans/spans.ts';
import type { Piece } from './step-inputs.ts';

interface PieceTimes {
  begunMs: number;
  computedMs: number;
  endMs: number;
  submits: number;
}

/**
 * `deviceTimed`: the device's lane shows its own times, so the host's go to the host's lane. Times in host
 * milliseconds.
 */
export function emitPieceSpan(
  onSpan: SpanSink,
  engineId: string,
  piece: Piece,
  step: number,
  { begunMs, computedMs, endMs, submits }: PieceTimes,
  deviceTimed: boolean,
): void {
  const { requestIds, numRows: rows, samples } = piece;
  const shared = { clock: 'host', requestId: null, requestIds } as const;
  const place = deviceTimed ? onHost(engineId) : onGpu(engineId);
  const args = { step, rows, submits };
  onSpan({ ...shared, ...place, name: 'forward', startMs: begunMs, endMs: computedMs, args });
  if (samples.length === 0) return;
  const sampled = { startMs: computedMs, endMs, args: { step, rows: samples.length } };
  onSpan({ ...shared, ...onHost(engineId), name: 'sampling', ...sampled });
}
